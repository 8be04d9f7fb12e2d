//! What a job carries, from the command line, a file or standard input.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::value::{RawValue, to_raw_value};

use crate::exit::{Code, Exit};

/// Where the body comes from.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(super) struct BodyFrom {
    /// What it carries: JSON if it is JSON, else text; - reads standard input
    #[arg(long, value_name = "JSON or TEXT", allow_hyphen_values = true)]
    body: Option<String>,
    /// The same from a file; one that is not UTF-8 is sent as bytes
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Bytes, in base64
    #[arg(long, value_name = "BASE64", value_parser = checked_base64)]
    body_base64: Option<String>,
}

/// A body as it is sent.
#[derive(Debug)]
pub(super) enum Body {
    Nothing,
    Json(Box<RawValue>),
    Base64(String),
}

impl BodyFrom {
    pub(super) fn read(self) -> Result<Body, Exit> {
        match self {
            Self { body: Some(text), .. } if text == "-" => from_bytes(read(Path::new("-"))?),
            Self { body: Some(text), .. } => from_text(&text),
            Self { body_file: Some(path), .. } => from_bytes(read(&path)?),
            Self { body_base64: Some(text), .. } => Ok(Body::Base64(text)),
            Self { .. } => Ok(Body::Nothing),
        }
    }
}

impl Body {
    /// As the two fields of a put.
    pub(super) fn fields(&self) -> (Option<&RawValue>, Option<Cow<'_, str>>) {
        match self {
            Self::Nothing => (None, None),
            Self::Json(json) => (Some(json), None),
            Self::Base64(text) => (None, Some(Cow::Borrowed(text))),
        }
    }
}

fn checked_base64(text: &str) -> Result<String, String> {
    STANDARD.decode(text).map(|_| text.to_owned()).map_err(|error| format!("is not base64: {error}"))
}

fn read(path: &Path) -> Result<Vec<u8>, Exit> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    read.map(|()| bytes).map_err(|error| Exit::failure(format!("cannot read {name}: {error}")))
}

/// One line end at the end belongs to the file, not to the text in it.
fn from_bytes(bytes: Vec<u8>) -> Result<Body, Exit> {
    match String::from_utf8(bytes) {
        Ok(text) => {
            let text = text.strip_suffix('\n').unwrap_or(&text);
            from_text(text.strip_suffix('\r').unwrap_or(text))
        }
        Err(error) => Ok(Body::Base64(STANDARD.encode(error.as_bytes()))),
    }
}

/// JSON if it is JSON, else text. What begins like JSON and is not is most likely a slip, and never sent as text.
fn from_text(text: &str) -> Result<Body, Exit> {
    match serde_json::from_str::<Box<RawValue>>(text) {
        Ok(json) => Ok(Body::Json(json)),
        Err(error) if text.trim_start().starts_with(['{', '[']) => {
            let advice = "to send it as text, quote it as a JSON string";
            Err(Exit::new(Code::Usage, format!("the body looks like JSON and is not: {error}; {advice}")))
        }
        Err(_) => to_raw_value(text).map(Body::Json).map_err(|error| Exit::failure(format!("the body: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        match from_text(text) {
            Ok(Body::Json(json)) => json.get().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn json_stays_as_it_is_and_all_else_is_text() {
        for (text, sent) in [
            ("{\"b\": 1, \"a\": 12345678901234567890}", "{\"b\": 1, \"a\": 12345678901234567890}"),
            ("42", "42"),
            ("null", "null"),
            ("\"hi\"", "\"hi\""),
            ("hi \"you\"", "\"hi \\\"you\\\"\""),
            ("007", "\"007\""),
            ("", "\"\""),
            (" [1] ", "[1]"),
        ] {
            assert_eq!(json(text), sent, "{text}");
        }
    }

    #[test]
    fn a_slip_in_json_is_not_sent_as_text() {
        for text in ["{\"a\": 1", "[1,]", " {a: 1}"] {
            assert!(from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_lose_one_line_end_and_bytes_stay_bytes() {
        let text = |bytes: &[u8]| match from_bytes(bytes.to_vec()) {
            Ok(Body::Json(json)) => json.get().to_owned(),
            Ok(Body::Base64(text)) => format!("base64:{text}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(b"hi\n"), "\"hi\"");
        assert_eq!(text(b"hi\r\n"), "\"hi\"");
        assert_eq!(text(b"hi\n\n"), "\"hi\\n\"");
        assert_eq!(text(b"{\"a\":\n1}\n"), "{\"a\":\n1}");
        assert_eq!(text(b"\xff\x00"), "base64:/wA=");
    }
}
