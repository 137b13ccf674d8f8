//! Reads P4Info from a file, in either of its forms.
//!
//! The text form is protobuf's text format, which prost-reflect reads with the compiled-in
//! descriptors.

use std::sync::OnceLock;

use prost::Message;
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::proto::p4::config::v1::P4Info;

/// The descriptors that `build.rs` compiled.
const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/p4runtime.bin"));

/// Why bytes are no valid P4Info.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Text that does not follow the text format or the messages.
    #[error("not P4Info in protobuf's text format: {0}")]
    Text(String),
    /// Bytes that do not follow the binary format.
    #[error("not P4Info in protobuf's binary format: {0}; give the file that p4c wrote")]
    Binary(#[from] prost::DecodeError),
}

/// Reads P4Info in text or binary form.
///
/// Bytes with a control character other than a tab or a line end are the binary form. Every
/// object with an id has such a byte, since ids are preceded by the byte 8.
///
/// # Errors
/// Fails if the bytes are neither.
pub fn read(bytes: &[u8]) -> Result<P4Info, ReadError> {
    let is_control = |byte: &u8| byte.is_ascii_control() && !b"\t\n\r".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.iter().any(is_control) => read_text(text),
        _ => Ok(P4Info::decode(bytes)?),
    }
}

/// Reads the text form.
///
/// # Errors
/// Fails if the text does not follow it.
pub fn read_text(text: &str) -> Result<P4Info, ReadError> {
    let message = DynamicMessage::parse_text_format(descriptor().clone(), text)
        .map_err(|error| ReadError::Text(on_one_line(&error.to_string())))?;
    Ok(message.transcode_to()?)
}

/// Writes the text form, one line per field.
///
/// # Errors
/// Never, for messages of the published definition.
pub fn to_text(p4info: &P4Info) -> Result<String, ReadError> {
    let mut message = DynamicMessage::new(descriptor().clone());
    message.transcode_from(p4info)?;
    let options = FormatOptions::new().pretty(true);
    Ok(message.to_text_format_with_options(&options) + "\n")
}

/// All messages and services of the published definition.
pub(crate) fn descriptors() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| {
        DescriptorPool::decode(DESCRIPTORS).expect("what the build compiled decodes")
    })
}

fn descriptor() -> &'static MessageDescriptor {
    static DESCRIPTOR: OnceLock<MessageDescriptor> = OnceLock::new();
    DESCRIPTOR.get_or_init(|| {
        descriptors()
            .get_message_by_name("p4.config.v1.P4Info")
            .expect("the published definition has P4Info")
    })
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
