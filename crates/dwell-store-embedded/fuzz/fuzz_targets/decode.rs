//! Stored bytes are the world's: whatever they are, no decoder panics, and what is read can be written and read again.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dwell_store_embedded::fuzzing::decode_any(bytes));
