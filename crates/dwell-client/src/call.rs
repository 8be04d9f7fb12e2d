//! One request and its answer.

use std::fmt::Write as _;
use std::time::Duration;

use dwell_wire::Problem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::error::Error;

/// How long an answer may take, beyond what the server was asked to wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is escaped in paths and queries.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path below `/v1`, made of words of ours and names of others.
#[derive(Debug)]
pub(crate) struct Path(Result<String, Error>);

impl Path {
    pub(crate) fn new(words: &str) -> Self {
        Self(Ok(format!("/v1/{words}")))
    }

    /// One that is not below `/v1`.
    pub(crate) fn root(word: &str) -> Self {
        Self(Ok(format!("/{word}")))
    }

    /// Adds a name. One that would make it another path is refused.
    pub(crate) fn name(self, what: &str, name: &str) -> Self {
        Self(self.0.and_then(|mut path| {
            if matches!(name, "" | "." | "..") {
                return Err(Error::refused(what, format!("\"{name}\" cannot be a name")));
            }
            // Writing to a string cannot fail.
            let _ = write!(path, "/{}", utf8_percent_encode(name, ESCAPED));
            Ok(path)
        }))
    }

    pub(crate) fn word(self, word: &str) -> Self {
        Self(self.0.map(|path| format!("{path}/{word}")))
    }
}

/// One request.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    client: &'a Client,
    method: Method,
    path: Path,
    query: String,
    headers: Vec<(HeaderName, String)>,
    body: Vec<u8>,
    wait: Duration,
}

impl Client {
    pub(crate) fn call(&self, method: Method, path: Path) -> Call<'_> {
        Call {
            client: self,
            method,
            path,
            query: String::new(),
            headers: Vec::new(),
            body: Vec::new(),
            wait: Duration::ZERO,
        }
    }
}

impl Call<'_> {
    /// Adds a parameter, if there is a value.
    pub(crate) fn query(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            let mark = if self.query.is_empty() { '?' } else { '&' };
            // Writing to a string cannot fail.
            let _ = write!(self.query, "{mark}{name}={}", utf8_percent_encode(&value.to_string(), ESCAPED));
        }
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: Option<String>) -> Self {
        self.headers.extend(value.map(|value| (name, value)));
        self
    }

    pub(crate) fn json(mut self, request: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(request).expect("requests can be written as JSON");
        self.headers.push((CONTENT_TYPE, "application/json".to_owned()));
        self
    }

    /// How long the server is asked to wait.
    pub(crate) fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Sends the request and reads the answer.
    pub(crate) async fn answer<T: DeserializeOwned>(self) -> Result<T, Error> {
        let url = self.client.url.clone();
        let (status, text) = self.send().await?;
        serde_json::from_slice(&text).map_err(|error| Error::NotDwell {
            url,
            reason: format!("it answers {status} with something else than was asked for ({error})"),
        })
    }

    /// Sends the request, which has no answer but that it went well.
    pub(crate) async fn done(self) -> Result<(), Error> {
        self.send().await.map(drop)
    }

    /// Sends the request and reads an answer that may also come with a 503.
    pub(crate) async fn answer_or_unavailable<T: DeserializeOwned>(self) -> Result<T, Error> {
        let url = self.client.url.clone();
        let (status, is_problem, text) = self.exchange().await?;
        match serde_json::from_slice(&text) {
            Ok(answer) if status.is_success() || status == StatusCode::SERVICE_UNAVAILABLE => Ok(answer),
            _ => Err(refused(&url, status, is_problem, &text)),
        }
    }

    async fn send(self) -> Result<(StatusCode, Vec<u8>), Error> {
        let url = self.client.url.clone();
        let (status, is_problem, text) = self.exchange().await?;
        if status.is_success() { Ok((status, text)) } else { Err(refused(&url, status, is_problem, &text)) }
    }

    async fn exchange(self) -> Result<(StatusCode, bool, Vec<u8>), Error> {
        let url = format!("{}{}{}", self.client.url, self.path.0?, self.query);
        let mut request = self.client.http.request(self.method, url).timeout(PATIENCE.saturating_add(self.wait));
        if let Some(authorization) = &self.client.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let lost = |error| Error::of_transport(&self.client.url, error);
        let response = request.body(self.body).send().await.map_err(lost)?;
        let (status, is_problem) = (response.status(), has_type(&response, "application/problem+json"));
        let text = response.bytes().await.map_err(lost)?.to_vec();
        Ok((status, is_problem, text))
    }
}

fn has_type(response: &Response, wanted: &str) -> bool {
    let given = response.headers().get(CONTENT_TYPE).and_then(|given| given.to_str().ok());
    given.is_some_and(|given| given.starts_with(wanted))
}

fn refused(url: &str, status: StatusCode, is_problem: bool, text: &[u8]) -> Error {
    let url = url.to_owned();
    match serde_json::from_slice::<Problem>(text) {
        Ok(problem) if is_problem => Error::Problem(Box::new(problem)),
        // What stands in front of a server that is not there.
        _ if matches!(status.as_u16(), 502..=504) => {
            Error::Unreachable { url, reason: format!("what stands before it answers {status}") }
        }
        _ => Error::NotDwell { url, reason: format!("it answers {status}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_never_lead_elsewhere() {
        let path = |name: &str| Path::new("topics").name("topic", name).word("jobs").0;
        assert_eq!(path("a/b c%é").unwrap(), "/v1/topics/a%2Fb%20c%25%C3%A9/jobs");
        assert_eq!(path("a.b_c-d").unwrap(), "/v1/topics/a.b_c-d/jobs");
        for name in ["", ".", ".."] {
            let refused = path(name).unwrap_err();
            assert_eq!(refused.to_string(), format!("\"topic\": \"{name}\" cannot be a name"));
        }
    }
}
