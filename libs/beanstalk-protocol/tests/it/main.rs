//! What holds for every command and every reply.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use beanstalk_protocol::{Command, Decoder, Event, Put, Reply, Tube, fuzzing};
use proptest::prelude::*;

const TUBE: &str = "[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}";

/// A command, as a list of its parts: those borrow, which strategies cannot.
fn a_command() -> impl Strategy<Value = (u8, u64, u32, u32, String)> {
    (0_u8..25, any::<u64>(), any::<u32>(), any::<u32>(), TUBE)
}

fn command(kind: u8, id: u64, a: u32, b: u32, name: &str) -> Command<'_> {
    let tube = Tube::new(name).unwrap();
    match kind {
        0 => Command::Use(tube),
        1 => Command::Reserve,
        2 => Command::ReserveWithTimeout(a >> 1),
        3 => Command::ReserveJob(id),
        4 => Command::Delete(id),
        5 => Command::Release { id, priority: a, delay: b },
        6 => Command::Bury { id, priority: a },
        7 => Command::Touch(id),
        8 => Command::Watch(tube),
        9 => Command::Ignore(tube),
        10 => Command::Peek(id),
        11 => Command::PeekReady,
        12 => Command::PeekDelayed,
        13 => Command::PeekBuried,
        14 => Command::Kick(a),
        15 => Command::KickJob(id),
        16 => Command::Stats,
        17 => Command::StatsJob(id),
        18 => Command::StatsTube(tube),
        19 => Command::ListTubes,
        20 => Command::ListTubeUsed,
        21 => Command::ListTubesWatched,
        22 => Command::PauseTube { tube, delay: a },
        23 => Command::Quit,
        _ => Command::Put(Put { priority: a, delay: b, ttr: a ^ b, size: 0 }),
    }
}

fn a_reply() -> impl Strategy<Value = (u8, u64, String, Vec<u8>)> {
    (0_u8..25, any::<u64>(), TUBE, prop::collection::vec(any::<u8>(), 0..100))
}

fn reply<'a>(kind: u8, id: u64, name: &'a str, body: &'a [u8]) -> Reply<'a> {
    const WORDS: [Reply<'_>; 17] = [
        Reply::Kicked,
        Reply::DeadlineSoon,
        Reply::TimedOut,
        Reply::Deleted,
        Reply::Released,
        Reply::Buried,
        Reply::Touched,
        Reply::Paused,
        Reply::NotFound,
        Reply::NotIgnored,
        Reply::OutOfMemory,
        Reply::InternalError,
        Reply::Draining,
        Reply::BadFormat,
        Reply::UnknownCommand,
        Reply::ExpectedCrlf,
        Reply::JobTooBig,
    ];
    match kind {
        0 => Reply::Inserted(id),
        1 => Reply::BuriedId(id),
        2 => Reply::Using(Tube::new(name).unwrap()),
        3 => Reply::Reserved { id, body },
        4 => Reply::Found { id, body },
        5 => Reply::Ok(body),
        6 => Reply::Watching(id),
        7 => Reply::KickedCount(id),
        word => WORDS[usize::from(word) - 8],
    }
}

proptest! {
    #[test]
    fn every_command_reads_back(parts in a_command(), body in prop::collection::vec(any::<u8>(), 0..300)) {
        let command = command(parts.0, parts.1, parts.2, parts.3, &parts.4);
        let mut line = Vec::new();
        if let Command::Put(put) = command {
            put.write(&body, &mut line);
            let step = Decoder::new(300).decode(&line);
            let size = u32::try_from(body.len()).unwrap();
            prop_assert_eq!(step.event, Some(Event::Put { put: Put { size, ..put }, body: &body }));
            prop_assert_eq!(step.consumed, line.len());
        } else {
            command.write(&mut line);
            let step = Decoder::new(300).decode(&line);
            prop_assert_eq!(step.event, Some(Event::Command(command)));
            prop_assert_eq!(step.consumed, line.len());
        }
    }

    #[test]
    fn every_reply_reads_back_and_none_before_it_is_whole(parts in a_reply()) {
        let reply = reply(parts.0, parts.1, &parts.2, &parts.3);
        let mut text = Vec::new();
        reply.write(&mut text);
        prop_assert_eq!(Reply::read(&text), Ok(Some((reply, text.len()))));
        for end in 0..text.len() {
            prop_assert_eq!(Reply::read(&text[..end]), Ok(None), "{} bytes", end);
        }
    }

    /// Many commands at once, cut anywhere, are the same commands.
    #[test]
    fn how_bytes_arrive_makes_no_difference(
        parts in prop::collection::vec(a_command(), 0..8),
        noise in "([a-z -]{0,12}|\\PC{0,300}|put 0 0 1 [0-9]{1,3})(\r\n)?",
        at in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        for (position, part) in parts.iter().enumerate() {
            if position == at.index(parts.len().max(1)) {
                bytes.extend_from_slice(noise.as_bytes());
            }
            command(part.0, part.1, part.2, part.3, &part.4).write(&mut bytes);
        }
        fuzzing::decode_any(&bytes);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzzing::decode_any(&bytes);
    }
}
