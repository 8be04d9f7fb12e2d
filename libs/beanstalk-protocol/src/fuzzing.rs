//! The door through which a fuzzer reaches the decoders. Not part of the interface of this crate.

use crate::{Command, Decoder, Event, Reply};

/// Reads anything as commands and as replies; what is read is written and read again.
pub fn decode_any(bytes: &[u8]) {
    let whole = commands(bytes, bytes.len().max(1));
    // How the bytes arrive makes no difference.
    for piece in [1, 7] {
        assert_eq!(commands(bytes, piece), whole, "in pieces of {piece}");
    }
    replies(bytes);
}

/// What the bytes mean if they come so many at a time.
fn commands(bytes: &[u8], piece: usize) -> Vec<String> {
    let mut decoder = Decoder::new(64);
    let (mut buffer, mut events) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            let step = decoder.decode(&buffer);
            assert!(step.consumed <= buffer.len());
            let Some(event) = step.event else {
                let consumed = step.consumed;
                buffer.drain(..consumed);
                break;
            };
            events.push(format!("{event:?}"));
            if event == Event::Http {
                return events;
            }
            write_again(&event);
            let consumed = step.consumed;
            buffer.drain(..consumed);
        }
    }
    events
}

fn write_again(event: &Event<'_>) {
    let mut out = Vec::new();
    match event {
        Event::Command(command) => {
            command.write(&mut out);
            assert_eq!(Command::read(&out[..out.len() - 2]), Ok(*command));
        }
        Event::Put { put, body } => {
            put.write(body, &mut out);
            assert_eq!(Decoder::new(64).decode(&out).event, Some(*event));
        }
        Event::Refused(_) | Event::Http => {}
    }
}

fn replies(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((reply, length))) = Reply::read(rest) {
        let mut out = Vec::new();
        reply.write(&mut out);
        assert_eq!(Reply::read(&out), Ok(Some((reply, out.len()))));
        rest = &rest[length..];
    }
}
