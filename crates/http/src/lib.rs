//! A small HTTP server: metrics and the dashboard are read by it.
//!
//! [`HttpServer::start`] gets a function that answers the head of a request. The server has a
//! thread of its own, and ends when it is dropped.
//!
//! 1. Connections, their time and the bytes of a request's head are bounded.
//! 2. A body that is sent along is not read.

mod answers;
mod server;

pub use answers::{HttpAnswer, only_read, plain_answer, text_answer};
pub use hyper::StatusCode;
pub use hyper::header;
pub use hyper::http::request::Parts as HttpRequest;
pub use server::{CONNECTIONS, HttpServer};
