//! What comes over a socket is the world's: whatever it is, no decoder panics, and what is read can be written and read
//! again.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| beanstalk_protocol::fuzzing::decode_any(bytes));
