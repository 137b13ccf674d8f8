//! JSON-RPC 1.0 over a stream of bytes, for both sides (RFC 7047, section 4).
//!
//! [`JsonSplitter`] finds where messages end, [`RpcMessage`] says what they are, and
//! [`RpcChannel`] is one connection without its socket, with echoes and an inactivity probe.
//! The database protocol uses it as a client, the daemon's control socket as a server.
//!
//! 1. A message is at most [`RpcLimits`] long, deep and full, which is checked before it is
//!    parsed: what a peer may make this side hold is bounded.
//! 2. Where the stream is cut into pieces makes no difference.

mod channel;
mod splitter;

use serde_json::{Map, Value, json};

pub use channel::{ChannelEnd, RpcChannel, RpcConfig, RpcCounters};
pub use splitter::{JsonSplitter, RpcLimits, SplitError};

/// A message of JSON-RPC 1.0.
#[derive(Clone, PartialEq, Debug)]
pub enum RpcMessage {
    /// Asks for a reply.
    Request {
        /// Names the request in its reply; never null.
        id: Value,
        /// What to do.
        method: String,
        /// Its parameters.
        params: Vec<Value>,
    },
    /// Tells something, and wants no reply.
    Notification {
        /// What happened.
        method: String,
        /// Its parameters.
        params: Vec<Value>,
    },
    /// Answers a request.
    Reply {
        /// The request's.
        id: Value,
        /// The answer, which may be null.
        result: Value,
    },
    /// Refuses a request.
    Error {
        /// The request's.
        id: Value,
        /// Why; never null.
        error: Value,
    },
}

/// Why a JSON text is no message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a message of JSON-RPC {0}")]
pub struct NoMessage(pub(crate) String);

impl RpcMessage {
    /// Reads a message, as Open vSwitch does: a member that is null is absent.
    ///
    /// # Errors
    ///
    /// Says which member is missing, superfluous or of the wrong type.
    pub fn parse(value: Value) -> Result<RpcMessage, NoMessage> {
        let no = |text: &str| NoMessage(text.to_owned());
        let Value::Object(mut members) = value else {
            return Err(no("is no object"));
        };
        let has_result = members.contains_key("result");
        let mut take = |name: &str| members.remove(name).filter(|value| !value.is_null());
        let (method, params) = (take("method"), take("params"));
        let (result, error, id) = (take("result"), take("error"), take("id"));
        if let Some((name, _)) = members.iter().next() {
            let name: String = name.chars().take(40).collect();
            return Err(NoMessage(format!("has the unknown member \"{name}\"")));
        }
        if method.is_none() && error.is_none() && has_result {
            // A result may be null.
            let id = id.ok_or_else(|| no("has a result and no \"id\""))?;
            let result = result.unwrap_or(Value::Null);
            return match params {
                None => Ok(RpcMessage::Reply { id, result }),
                Some(_) => Err(no("has both a result and \"params\"")),
            };
        }
        if let Some(error) = error {
            let id = id.ok_or_else(|| no("has an error and no \"id\""))?;
            return match (method, params, result) {
                (None, None, None) => Ok(RpcMessage::Error { id, error }),
                _ => Err(no("has an error and more than its \"id\"")),
            };
        }
        if result.is_some() {
            return Err(no("has both a result and a method"));
        }
        let method = match method {
            Some(Value::String(method)) => method,
            Some(_) => return Err(no("has a \"method\" that is no string")),
            None => return Err(no("has neither a method nor a result nor an error")),
        };
        let params = match params {
            Some(Value::Array(params)) => params,
            Some(_) => return Err(no("has \"params\" that are no array")),
            None => return Err(no("has a method and no \"params\"")),
        };
        Ok(match id {
            Some(id) => RpcMessage::Request { id, method, params },
            None => RpcMessage::Notification { method, params },
        })
    }

    /// The message as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            RpcMessage::Request { id, method, params } => {
                json!({"id": id, "method": method, "params": params})
            }
            RpcMessage::Notification { method, params } => {
                json!({"id": null, "method": method, "params": params})
            }
            RpcMessage::Reply { id, result } => {
                json!({"id": id, "result": result, "error": null})
            }
            RpcMessage::Error { id, error } => {
                json!({"id": id, "result": null, "error": error})
            }
        }
    }
}

/// A text as it may stand in an error: cut to a length that a log can hold.
pub(crate) fn excerpt(value: &Value) -> String {
    const MOST: usize = 200;
    let text = match value {
        Value::String(text) => text.clone(),
        // An error of the database: what it is, and more of it.
        Value::Object(members) => error_text(members).unwrap_or_else(|| value.to_string()),
        value => value.to_string(),
    };
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn error_text(members: &Map<String, Value>) -> Option<String> {
    let error = members.get("error")?.as_str()?;
    Some(match members.get("details").and_then(Value::as_str) {
        Some(details) => format!("{error}: {details}"),
        None => error.to_owned(),
    })
}

#[cfg(test)]
mod tests;
