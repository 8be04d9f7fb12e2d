//! Every command and its replies.

use std::fmt::Write as _;

use super::server;
use super::talk::{Talk, converse};

#[test]
fn a_job_goes_from_put_to_delete() {
    converse(
        &server(),
        "A> put 100 0 60 5
         A> hello
         A< INSERTED {a}
         A> peek {a}
         A< FOUND {a} 5
         A> hello
         A> peek-ready
         A< FOUND {a} 5
         A> hello
         A> reserve
         A< RESERVED {a} 5
         A> hello
         A> peek-ready
         A< NOT_FOUND
         A> touch {a}
         A< TOUCHED
         A> delete {a}
         A< DELETED
         A> delete {a}
         A< NOT_FOUND
         A> peek {a}
         A< NOT_FOUND
         A> touch {a}
         A< NOT_FOUND
         A> reserve-with-timeout 0
         A< TIMED_OUT",
    );
}

#[test]
fn a_job_is_released_buried_and_kicked() {
    converse(
        &server(),
        "A> put 5 0 60 1
         A> x
         A< INSERTED {a}
         A> reserve
         A< RESERVED {a} 1
         A> x
         A> release {a} 7 0
         A< RELEASED
         A> release {a} 7 0
         A< NOT_FOUND
         A> reserve-with-timeout 1
         A< RESERVED {a} 1
         A> x
         A> release {a} 7 100
         A< RELEASED
         A> peek-delayed
         A< FOUND {a} 1
         A> x
         A> reserve-with-timeout 0
         A< TIMED_OUT
         A> kick 10
         A< KICKED 1
         A> kick 10
         A< KICKED 0
         A> reserve
         A< RESERVED {a} 1
         A> x
         A> bury {a} 3
         A< BURIED
         A> bury {a} 3
         A< NOT_FOUND
         A> peek-buried
         A< FOUND {a} 1
         A> x
         A> kick-job {a}
         A< KICKED
         A> kick-job {a}
         A< NOT_FOUND
         A> peek-buried
         A< NOT_FOUND
         A> reserve-job {a}
         A< RESERVED {a} 1
         A> x
         A> reserve-job {a}
         A< NOT_FOUND
         A> reserve-job 9007199254740992
         A< NOT_FOUND
         A> kick-job 18446744073709551615
         A< NOT_FOUND",
    );
}

/// beanstalkd kicks delayed jobs only if not one is buried.
#[test]
fn buried_jobs_are_kicked_before_delayed_ones() {
    converse(
        &server(),
        "A> put 0 100 60 1
         A> d
         A< INSERTED {d}
         A> put 0 0 60 1
         A> b
         A< INSERTED {b}
         A> reserve
         A< RESERVED {b} 1
         A> b
         A> bury {b} 0
         A< BURIED
         A> kick 1000000
         A< KICKED 1
         A> peek-delayed
         A< FOUND {d} 1
         A> d
         A> kick 1000000
         A< KICKED 1
         A> peek-delayed
         A< NOT_FOUND",
    );
}

#[test]
fn only_the_holder_may_settle_and_a_held_job_is_nobody_elses() {
    converse(
        &server(),
        "A> put 0 0 60 1
         A> x
         A< INSERTED {a}
         A> reserve
         A< RESERVED {a} 1
         A> x
         B> delete {a}
         B< NOT_FOUND
         B> release {a} 0 0
         B< NOT_FOUND
         B> bury {a} 0
         B< NOT_FOUND
         B> touch {a}
         B< NOT_FOUND
         B> reserve-job {a}
         B< NOT_FOUND
         B> kick-job {a}
         B< NOT_FOUND
         B> peek {a}
         B< FOUND {a} 1
         B> x
         A> delete {a}
         A< DELETED",
    );
}

#[test]
fn jobs_of_all_watched_tubes_come_by_priority() {
    converse(
        &server(),
        "A> use one
         A< USING one
         A> put 20 0 60 1
         A> b
         A< INSERTED {b}
         A> use two
         A< USING two
         A> put 10 0 60 1
         A> a
         A< INSERTED {a}
         A> put 30 0 60 1
         A> c
         A< INSERTED {c}
         B> watch one
         B< WATCHING 2
         B> watch two
         B< WATCHING 3
         B> watch two
         B< WATCHING 3
         B> ignore default
         B< WATCHING 2
         B> reserve
         B< RESERVED {a} 1
         B> a
         B> reserve
         B< RESERVED {b} 1
         B> b
         B> ignore one
         B< WATCHING 1
         B> ignore one
         B< WATCHING 1
         B> ignore two
         B< NOT_IGNORED
         B> reserve
         B< RESERVED {c} 1
         B> c",
    );
}

/// A job that was taken before it was due is ready, not delayed, when it is given back.
#[test]
fn a_delayed_job_taken_by_its_number_is_ready_when_released() {
    converse(
        &server(),
        "A> put 0 1000 60 1
         A> x
         A< INSERTED {a}
         A> reserve-job {a}
         A< RESERVED {a} 1
         A> x
         A> release {a} 0 0
         A< RELEASED
         A> reserve-with-timeout 0
         A< RESERVED {a} 1
         A> x",
    );
}

#[test]
fn bodies_are_bytes() {
    let server = server();
    let mut talk = Talk::to(&server);
    for body in ["", "\r\n", "line\r\nput 0 0 1 1\r\n", "\0\u{1}ü", &"x".repeat(100_000)] {
        let id = talk.put("0 0 60", body);
        assert_eq!(talk.ask("reserve"), format!("RESERVED {id} {}\n{body}", body.len()));
        assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
    }
}

/// A thousand times more than a connection reads at once, before the first answer is read.
#[test]
fn commands_may_be_sent_without_waiting_for_answers() {
    const JOBS: u64 = 5_000;
    let server = server();
    let mut talk = Talk::to(&server);
    let mut pipeline = String::new();
    for number in 0..JOBS {
        let tube = if number % 100 == 0 { format!("use t{}\r\n", number / 100 % 3) } else { String::new() };
        let body = format!("job {number}");
        write!(pipeline, "{tube}put {number} 0 60 {}\r\n{body}\r\n", body.len()).unwrap();
        if number % 1_000 == 999 {
            pipeline += "nonsense\r\nwatch t0\r\nwatch t1\r\nwatch t2\r\n";
        }
    }
    pipeline += &"reserve\r\n".repeat(usize::try_from(JOBS).unwrap());
    let mut stream = talk.clone_tcp();
    let sent = std::thread::spawn(move || std::io::Write::write_all(&mut stream, pipeline.as_bytes()).unwrap());
    let mut ids = Vec::new();
    for number in 0..JOBS {
        if number % 100 == 0 {
            assert_eq!(talk.reply(), format!("USING t{}", number / 100 % 3));
        }
        let reply = talk.reply();
        ids.push(reply.strip_prefix("INSERTED ").unwrap_or_else(|| panic!("{reply}")).parse::<u64>().unwrap());
        if number % 1_000 == 999 {
            assert_eq!(talk.reply(), "UNKNOWN_COMMAND");
            let first = number == 999;
            let counts = if first { ["WATCHING 2", "WATCHING 3", "WATCHING 4"] } else { ["WATCHING 4"; 3] };
            assert_eq!([talk.reply(), talk.reply(), talk.reply()], counts);
        }
    }
    assert!(ids.is_sorted());
    for (number, id) in ids.iter().enumerate() {
        assert!(talk.reply().starts_with(&format!("RESERVED {id} ")), "job {number}");
    }
    sent.join().unwrap();
}

/// What is reserved and deleted in one pipeline is answered in the order it was asked.
#[test]
fn a_pipeline_of_many_kinds_is_done_in_order() {
    let server = server();
    let mut talk = Talk::to(&server);
    let ids: Vec<_> = (0..4).map(|_| talk.put("0 0 60", "x")).collect();
    let [a, b, c, d] = ids[..] else { panic!("four") };
    talk.send(format!(
        "reserve\r\nreserve\r\ndelete {a}\r\ntouch {b}\r\nbogus\r\nrelease {b} 9 0\r\ndelete {b}\r\ndelete {b}\r\n\
         use other\r\nreserve\r\nbury {c} 1\r\npeek-buried\r\nuse default\r\npeek-buried\r\nlist-tube-used\r\n\
         list-tubes-watched\r\ndelete {d}\r\nreserve-with-timeout 0\r\nkick 1\r\nquit\r\n"
    ));
    let replies: Vec<_> = (0..19).map(|_| talk.reply()).collect();
    let wanted = [
        &format!("RESERVED {a} 1\nx"),
        &format!("RESERVED {b} 1\nx"),
        "DELETED",
        "TOUCHED",
        "UNKNOWN_COMMAND",
        "RELEASED",
        "DELETED",
        "NOT_FOUND",
        "USING other",
        &format!("RESERVED {c} 1\nx"),
        "BURIED",
        "NOT_FOUND",
        "USING default",
        &format!("FOUND {c} 1\nx"),
        "USING default",
        "OK 14\n---\n- default\n",
        "DELETED",
        "TIMED_OUT",
        "KICKED 1",
    ];
    assert_eq!(replies, wanted);
    assert!(talk.is_closed());
}
