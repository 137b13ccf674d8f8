//! Answers.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};

use crate::HttpRequest;

/// The type of a text for people.
const PLAIN: &str = "text/plain; charset=utf-8";

/// An answer with its whole body.
pub type HttpAnswer = Response<Full<Bytes>>;

/// An answer with a text of this type.
pub fn text_answer(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> HttpAnswer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// An answer with a text for people.
pub fn plain_answer(status: StatusCode, text: impl Into<Bytes>) -> HttpAnswer {
    text_answer(status, PLAIN, text)
}

/// Refuses all methods but those that read; `what` is read here.
///
/// # Errors
/// If the method is another one; the error is the answer.
pub fn only_read(request: &HttpRequest, what: &str) -> Result<(), Box<HttpAnswer>> {
    if request.method == Method::GET || request.method == Method::HEAD {
        return Ok(());
    }
    let text = format!("{what} are read by GET\n");
    let mut refused = plain_answer(StatusCode::METHOD_NOT_ALLOWED, text);
    let methods = HeaderValue::from_static("GET, HEAD");
    refused.headers_mut().insert(ALLOW, methods);
    Err(Box::new(refused))
}
