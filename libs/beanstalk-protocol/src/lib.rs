//! The beanstalk protocol, version 1.13: commands and replies, read and written.
//!
//! Bytes in, values out: no socket, no clock, no allocation while reading, no dependency. What is read borrows from the
//! buffer it was read from.
//!
//! A server feeds what it has received to a [`Decoder`], which knows about bodies, lines that are too long and bodies
//! that are too big, and answers with [`Reply`]s:
//!
//! ```
//! use beanstalk_protocol::{Command, Decoder, Event, Reply};
//!
//! let mut decoder = Decoder::new(65_535);
//! let received = b"use mail\r\nput 10 0 60 5\r\nhello\r\nreserve\r\n";
//! let (mut at, mut answers) = (0, Vec::new());
//! loop {
//!     let step = decoder.decode(&received[at..]);
//!     at += step.consumed;
//!     match step.event {
//!         Some(Event::Command(Command::Use(tube))) => Reply::Using(tube).write(&mut answers),
//!         Some(Event::Put { put, body }) => {
//!             assert_eq!((put.priority, put.delay, put.ttr, body), (10, 0, 60, &b"hello"[..]));
//!             Reply::Inserted(1).write(&mut answers);
//!         }
//!         Some(Event::Command(Command::Reserve)) => Reply::Reserved { id: 1, body: b"hello" }.write(&mut answers),
//!         Some(Event::Refused(why)) => Reply::from(why).write(&mut answers),
//!         Some(_) => unreachable!("nothing else was sent"),
//!         None => break, // more must be received first
//!     }
//! }
//! assert_eq!(answers, b"USING mail\r\nINSERTED 1\r\nRESERVED 1 5\r\nhello\r\n");
//! ```
//!
//! A client writes [`Command`]s and [`Put`]s, and reads answers with [`Reply::read`]:
//!
//! ```
//! use beanstalk_protocol::{Command, Reply};
//!
//! let mut line = Vec::new();
//! Command::Release { id: 7, priority: 10, delay: 30 }.write(&mut line);
//! assert_eq!(line, b"release 7 10 30\r\n");
//!
//! let received = b"FOUND 7 5\r\nhello\r\nNOT_";
//! let (reply, length) = Reply::read(received).unwrap().unwrap();
//! assert_eq!(reply, Reply::Found { id: 7, body: b"hello" });
//! assert_eq!(Reply::read(&received[length..]), Ok(None), "the rest has not arrived");
//! ```

mod command;
mod decoder;
#[doc(hidden)]
pub mod fuzzing;
mod number;
mod reply;
mod tube;

pub use command::{Command, Mistake, Put};
pub use decoder::{Decoder, Event, Refusal, Step};
pub use reply::{NotAReply, Reply};
pub use tube::{BadTube, Tube};

/// Bytes of a command line at the most, its `\r\n` included.
pub const MAX_LINE: usize = 224;

/// Bytes of a tube's name at the most.
pub const MAX_TUBE: usize = 200;

/// What a server may call too big unless it is told otherwise: bytes of a body.
pub const DEFAULT_MAX_JOB: u32 = 65_535;

/// Jobs with a lower priority than this are called urgent.
pub const URGENT: u32 = 1_024;
