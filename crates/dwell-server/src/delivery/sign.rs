//! Standard Webhooks: what a receiver checks to know that a request is Dwell's and is fresh.
//!
//! The signature covers `<webhook-id>.<webhook-timestamp>.<body>`, so an id has no dot in it. While a secret is rotated
//! there are two signatures, and a receiver that knows either secret is content.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dwell_core::limits;
use dwell_core::{Job, Secret};

/// What secrets begin with where people see them.
const PREFIX: &str = "whsec_";

/// Bytes of a key at the least: what is shorter can be guessed.
const SHORTEST: usize = 16;

/// Why a text is no secret. It never says what the text was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASecret {
    /// Not base64.
    #[error("is not a secret: it must be whsec_ and base64; make one with: echo \"whsec_$(openssl rand -base64 32)\"")]
    Shape,
    /// Too short or too long.
    #[error("is a secret of {bytes} bytes; it must have {SHORTEST} to {} of them", limits::MAX_SECRET)]
    Length {
        /// Bytes it has.
        bytes: usize,
    },
}

/// Reads a secret as people write it: `whsec_` and base64.
pub fn secret(text: &str) -> Result<Secret, NotASecret> {
    let key = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).map_err(|_| NotASecret::Shape)?;
    if key.len() < SHORTEST {
        return Err(NotASecret::Length { bytes: key.len() });
    }
    Secret::new(&key).ok_or(NotASecret::Length { bytes: key.len() })
}

/// What a receiver knows a job by: the same over retries and redrives, another for each job of each server.
///
/// The job's number alone would do for one store; but stores are made anew, and receivers hear from several.
pub(crate) fn webhook_id(job: &Job) -> String {
    let (topic, id) = (job.topic.as_str(), job.id.as_str());
    let (number, created_at) = (job.number.get(), job.created_at.as_millis());
    hashed(&format!("{topic}\n{number}\n{created_at}\n{id}"))
}

/// The id of a sample that is no job.
pub(crate) fn sample_id(unique: &str) -> String {
    hashed(&format!("sample\n{unique}"))
}

fn hashed(text: &str) -> String {
    use std::fmt::Write as _;
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref()[..16].iter().fold("msg_".to_owned(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

/// The value of `webhook-signature`; `None` without secrets.
pub(crate) fn signature(secrets: &[Secret], id: &str, timestamp: u64, body: &[u8]) -> Option<String> {
    let head = format!("{id}.{timestamp}.");
    let one = |secret: &Secret| {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.expose()));
        context.update(head.as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    };
    (!secrets.is_empty()).then(|| secrets.iter().map(one).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use dwell_core::{JobId, NewJob, Number, Timestamp, TopicName, Version, When};
    use standardwebhooks::Webhook;

    use super::*;

    const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    /// Theirs takes only what is fresh.
    #[expect(clippy::disallowed_methods, reason = "their library reads the clock")]
    fn now() -> u64 {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
    }

    fn check(secret: &str, id: &str, timestamp: u64, signature: &str, body: &[u8]) -> bool {
        let mut headers = axum::http::HeaderMap::new();
        headers.insert("webhook-id", id.parse().unwrap());
        headers.insert("webhook-timestamp", timestamp.to_string().parse().unwrap());
        headers.insert("webhook-signature", signature.parse().unwrap());
        Webhook::new(secret).unwrap().verify(body, &headers).is_ok()
    }

    #[test]
    fn somebody_elses_library_takes_our_signatures() {
        let now = now();
        for body in [&b"{\"order\": 42}"[..], b"null", b"", "{\"text\": \"grüße\"}".as_bytes()] {
            let signed = signature(&[secret(NEW).unwrap()], "msg_1", now, body).unwrap();
            assert!(check(NEW, "msg_1", now, &signed, body));
            assert!(!check(OLD, "msg_1", now, &signed, body), "another secret");
            assert!(!check(NEW, "msg_2", now, &signed, body), "another id");
            assert!(!check(NEW, "msg_1", now + 1, &signed, body), "another time");
            assert!(!check(NEW, "msg_1", now, &signed, b"{}"), "another body");
        }
    }

    #[test]
    fn their_library_signs_as_we_do() {
        let theirs = Webhook::new(OLD).unwrap().sign("msg_1", 1_794_764_280, b"{}").unwrap();
        assert_eq!(signature(&[secret(OLD).unwrap()], "msg_1", 1_794_764_280, b"{}"), Some(theirs));
    }

    #[test]
    fn while_a_secret_is_rotated_either_one_will_do() {
        let both = [secret(NEW).unwrap(), secret(OLD).unwrap()];
        let now = now();
        let signed = signature(&both, "msg_1", now, b"{}").unwrap();
        assert!(check(NEW, "msg_1", now, &signed, b"{}") && check(OLD, "msg_1", now, &signed, b"{}"));
        assert_eq!(signed.split(' ').count(), 2);
        assert_eq!(signature(&[], "msg_1", 7, b"{}"), None);
    }

    #[test]
    fn secrets_are_base64_and_long_enough() {
        assert_eq!(secret(OLD).unwrap().expose().len(), 24);
        assert_eq!(secret(OLD), secret(&OLD[6..]), "the prefix is for people");
        for wrong in ["whsec_", "whsec_***", "not base64!", "whsec_whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
            let error = secret(wrong).unwrap_err();
            assert!(!error.to_string().contains("MfKQ"), "{error}");
        }
        assert_eq!(secret(&STANDARD.encode([1; 15])), Err(NotASecret::Length { bytes: 15 }));
        assert!(secret(&STANDARD.encode([1; 255])).is_ok());
        assert_eq!(secret(&STANDARD.encode([1; 256])), Err(NotASecret::Length { bytes: 256 }));
    }

    #[test]
    fn an_id_has_no_dots_stays_and_is_nobody_elses() {
        let job = |topic: &str, id: &str, number, created_at| {
            let at = Timestamp::from_millis(created_at).unwrap();
            let new = NewJob::new(TopicName::new(topic).unwrap(), JobId::new(id).unwrap(), When::NOW);
            Job::create(new, Number::new(number).unwrap(), Version::new(1).unwrap(), at, 0).unwrap()
        };
        let first = job("a.b", "order.42", 7, 1_000);
        let id = webhook_id(&first);
        assert!(id.starts_with("msg_") && id.len() == 36 && !id.contains('.'), "{id}");
        let later = Job { attempt: 5, due_at: Timestamp::MAX, version: Version::new(9).unwrap(), ..first.clone() };
        assert_eq!(webhook_id(&later), id, "over retries and redrives");
        for other in [
            job("a.c", "order.42", 7, 1_000),
            job("a.b", "order.43", 7, 1_000),
            job("a.b", "order.42", 8, 1_000),
            job("a.b", "order.42", 7, 1_001),
        ] {
            assert_ne!(webhook_id(&other), id);
        }
    }
}
