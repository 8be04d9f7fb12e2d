//! The credential of a request: `Authorization: Bearer <token>`; or, for browsers, a password without a name.

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dwell_wire::Code;

use super::access::Who;
use super::answer::Failure;
use crate::auth::{Grant, Tokens};

/// Who sent a request; refuses one that shows no token, or a wrong one.
pub(super) fn check(tokens: &Tokens, request: &Request<Body>) -> Result<Who, Failure> {
    if tokens.is_empty() {
        return Ok(Who(Grant::of_everyone()));
    }
    let detail = match shown(request.headers()) {
        None => "this server wants a token: send \"Authorization: Bearer <token>\"",
        Some(token) => match tokens.find(&token) {
            Some(grant) => return Ok(Who(grant)),
            None => "the token is not one of this server's",
        },
    };
    let challenge = HeaderValue::from_static("Bearer realm=\"dwell\", Basic realm=\"dwell\", charset=\"UTF-8\"");
    Err(Failure::new(Code::Unauthorized, detail).with_header(WWW_AUTHENTICATE, challenge))
}

/// Whether the credential is one that no browser sends by itself.
pub(super) fn is_bearer(headers: &HeaderMap) -> bool {
    scheme(headers, "bearer").is_some()
}

/// The token that a request shows.
fn shown(headers: &HeaderMap) -> Option<Vec<u8>> {
    if let Some(token) = scheme(headers, "bearer") {
        return Some(token.as_bytes().to_owned());
    }
    let decoded = STANDARD.decode(scheme(headers, "basic")?).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_owned())
}

fn scheme<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let (scheme, rest) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case(wanted).then(|| rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Token;

    #[test]
    fn tokens_come_as_bearers_or_as_passwords() {
        let tokens = Tokens::new(vec![Token::for_everything("n", "secret")]).unwrap();
        let allowed = |header: &str| {
            let request = Request::builder().header(AUTHORIZATION, header).body(Body::empty()).unwrap();
            check(&tokens, &request).is_ok()
        };
        assert!(allowed("Bearer secret") && allowed("bearer  secret"));
        assert!(allowed(&format!("Basic {}", STANDARD.encode("anyone:secret"))));
        for wrong in ["", "secret", "Bearer", "Bearer secrets", "Basic secret", "Basic c2VjcmV0", "Token secret"] {
            assert!(!allowed(wrong), "{wrong}");
        }
        assert!(check(&tokens, &Request::new(Body::empty())).is_err());
        assert!(check(&Tokens::default(), &Request::new(Body::empty())).is_ok());
    }
}
