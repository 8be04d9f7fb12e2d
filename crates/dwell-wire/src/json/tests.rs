use super::*;
use crate::change::{ChangeJob, Edit};
use crate::put::{Named, PutJob};
use crate::settle::SettleItem;

fn mistakes(text: &str) -> Vec<String> {
    let mut fields = read_object(text.as_bytes()).expect("it is an object");
    PutJob::read(&mut fields, Named::ById);
    fields.done().into_iter().map(|error| format!("{}: {}", error.field, error.reason)).collect()
}

fn malformed(text: &[u8]) -> String {
    read_object(text).map(|_| ()).expect_err("it is no object").0
}

#[test]
fn only_objects_are_requests() {
    for text in ["[]", "3", "-3", "1.5", "true", "null", "\"{}\"", "[{}]"] {
        assert_eq!(
            malformed(text.as_bytes()),
            "the request must be a JSON object, like {\"delay\": \"30s\"}",
            "{text}"
        );
    }
    assert!(read_object(b"").unwrap().is_empty() && read_object(b" \n").is_err(), "blanks are no JSON");
    assert!(read_object(b" {} ").unwrap().is_empty());
}

#[test]
fn what_is_not_json_is_told_where() {
    for (text, told) in [
        (&b"{"[..], "line 1 column 1"),
        (b"{\"a\":}", "line 1 column 6"),
        (b"{} {}", "line 1 column 4"),
        (b"{\"a\": 01}", "line 1 column 8"),
        (b"{'a': 1}", "line 1 column 2"),
        (b"{\"a\": \"\xff\"}", "not UTF-8 from byte 7"),
        (b"\xef\xbb\xbf{}", "line 1 column 1"),
    ] {
        assert!(malformed(text).contains(told), "{}", malformed(text));
    }
}

#[test]
fn every_mistake_is_named_with_what_would_be_right() {
    let said =
        mistakes(r#"{"delay": "soon", "at": 5, "priority": -1, "delai": 1, "ttr": "1h", "ttr": "2h", "zzz": 0}"#);
    assert_eq!(
        said,
        [
            "delay: \"soon\" is not a duration; try \"30s\", \"1h30m\" or milliseconds as a number",
            "priority: -1 is not a whole number from 0 to 4294967295",
            "ttr: is given twice",
            "delai: is unknown; did you mean \"delay\"?",
            "zzz: is unknown; known are id, delay, at, body, body_base64, headers, priority, ttr, retry, ttl, jitter, \
             if_exists, deliver_to",
        ]
    );
}

#[test]
fn nested_objects_are_read_as_strictly() {
    for (text, told) in [
        (r#"{"retry": []}"#, "retry: [] is not an object"),
        (r#"{"retry": {"attempts": 0}}"#, "retry.attempts: 0 is not a whole number from 1 to 4294967295"),
        (r#"{"retry": {"backoff": ["1s", "x"]}}"#, "retry.backoff[1]: \"x\" is not a duration"),
        (r#"{"retry": {"backoff": {"initial": "1s", "facter": 2}}}"#, "retry.backoff.facter: is unknown; did you mean"),
        (r#"{"retry": {"backoff": 3}}"#, "retry.backoff: 3 is neither a list of durations nor an object"),
        (r#"{"headers": {"a": 1}}"#, "headers.a: 1 is not a string"),
        (r#"{"headers": {"a": "1", "a": "2"}}"#, "headers.a: is given twice"),
        (r#"{"headers": []}"#, "headers: [] is not an object of strings"),
        (r#"{"if_exists": "Keep"}"#, "if_exists: \"Keep\" is none of \"replace\", \"keep\", \"reject\""),
        (r#"{"delay": 1, "at": 1}"#, "at: and \"delay\" are both given; choose one"),
        (r#"{"body": null, "body_base64": ""}"#, "body_base64: and \"body\" are both given; choose one"),
        (r#"{"delay": null}"#, "delay: null is not a duration"),
        (r#"{"id": 7}"#, "id: 7 is not a string"),
        (r#"{"id": "\ud800"}"#, "id: \"\\ud800\" is not a string"),
    ] {
        let said = mistakes(text);
        assert!(said.len() == 1 && said[0].starts_with(told), "{text}: {said:?}");
    }
}

#[test]
fn a_million_mistakes_are_not_a_million_words() {
    let many: Vec<_> = (0..1_000).map(|n| format!("\"x{n}\": 1")).collect();
    assert_eq!(mistakes(&format!("{{{}}}", many.join(","))).len(), 20);
    let long = format!("{{\"delay\": \"{}\"}}", "s".repeat(10_000));
    assert!(mistakes(&long)[0].len() < 200);
}

#[test]
fn nesting_is_bounded_with_the_request_itself_as_a_level() {
    let nested = |levels: usize| format!("{{\"body\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(mistakes(&nested(127)).is_empty());
    assert_eq!(mistakes(&nested(128)), ["body: is nested deeper than 128 levels"]);
    assert_eq!(mistakes(&nested(100_000)), ["body: is nested deeper than 128 levels"]);
}

#[test]
fn bodies_are_the_exact_text() {
    for body in
        ["null", "12345678901234567890", "1.0", "{\"b\": 1,  \"a\":2, \"b\":3}", "\"\\u00e9\\ud800\"", "[ 1 ,2]"]
    {
        let text = format!("{{\"body\" : {body} }}");
        let mut fields = read_object(text.as_bytes()).unwrap();
        assert_eq!(PutJob::read(&mut fields, Named::ByPath).body.map(serde_json::value::RawValue::get), Some(body));
        assert!(fields.done().is_empty(), "{body}");
    }
}

#[test]
fn a_change_tells_null_from_nothing() {
    let mut fields = read_object(br#"{"ttl": null, "priority": null, "ttr": "5s", "body": null}"#).unwrap();
    let change = ChangeJob::read(&mut fields);
    assert!(fields.done().is_empty());
    assert_eq!((change.ttl, change.priority), (Edit::Clear, Edit::Clear));
    assert_eq!((change.ttr, change.retry), (Edit::Set(crate::Duration(5_000)), Edit::Keep));
    assert_eq!(change.body.map(serde_json::value::RawValue::get), Some("null"));
    let mut fields = read_object(br#"{"delay": null}"#).unwrap();
    ChangeJob::read(&mut fields);
    assert_eq!(fields.done().len(), 1, "a due time cannot be cleared");
}

#[test]
fn fields_that_do_not_fit_a_verb_are_refused() {
    for (verb, fits) in [
        ("ack", &[][..]),
        ("nack", &["delay", "error"]),
        ("release", &["delay", "priority"]),
        ("bury", &["reason", "priority"]),
        ("extend", &["ttr"]),
    ] {
        for (field, value) in
            [("delay", "1"), ("error", "\"e\""), ("reason", "\"r\""), ("priority", "1"), ("ttr", "\"5s\"")]
        {
            let text = format!("{{\"token\": \"t\", \"verb\": \"{verb}\", \"{field}\": {value}}}");
            let mut fields = read_object(text.as_bytes()).unwrap();
            SettleItem::read(&mut fields);
            assert_eq!(fields.done().is_empty(), fits.contains(&field), "{text}");
        }
    }
}

#[test]
fn lists_are_read_item_by_item() {
    let read = |text: &str, most| {
        let mut items = Vec::new();
        let count = read_list(text.as_bytes(), "jobs", most, |fields| items.push(fields.is_some()));
        count.map(|count| (count, items)).map_err(|error| error.0)
    };
    assert_eq!(read(r#"{"jobs": [{}, 3, {"a": [1]}, []]}"#, 10), Ok((4, vec![true, false, true, false])));
    assert_eq!(read(r#"{"jobs": []}"#, 10), Ok((0, vec![])));
    assert_eq!(read(r#"{"jobs": [{}, {}, {}]}"#, 2), Ok((3, vec![true, true])));
    for text in [
        "[]",
        "3",
        "{}",
        r#"{"job": []}"#,
        r#"{"jobs": {}}"#,
        r#"{"jobs": 3}"#,
        r#"{"jobs": [], "x": 1}"#,
        r#"{"x": 1, "jobs": []}"#,
        r#"{"jobs": [], "jobs": []}"#,
    ] {
        assert!(read(text, 10).is_err_and(|told| told.contains("must be a JSON object")), "{text}");
    }
    for text in ["", "{\"jobs\": [", "{\"jobs\": [{}, {]}", "{\"jobs\": []} x", "{\"jobs\": [{}, {\"a\": tru}]}"] {
        assert!(read(text, 10).is_err_and(|told| told.contains("not JSON")), "{text}");
    }
}
