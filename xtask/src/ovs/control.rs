//! A client of an Open vSwitch daemon's control socket.
//!
//! The protocol is JSON-RPC 1.0 over a unix socket, without separators between messages, as
//! `ovs-appctl` uses it (`lib/unixctl.c` of Open vSwitch). One request at a time.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

/// A connection that calls commands one after the other.
pub(super) struct Control {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
    next_id: u64,
}

#[derive(Deserialize)]
struct Reply {
    id: Option<u64>,
    result: Option<String>,
    error: Option<serde_json::Value>,
}

impl Control {
    /// Connects to a daemon's `--unixctl` socket.
    pub(super) fn connect(path: &Path) -> anyhow::Result<Self> {
        let writer = UnixStream::connect(path)
            .with_context(|| format!("connecting to {}", path.display()))?;
        let reader = BufReader::new(writer.try_clone()?);
        Ok(Self {
            writer,
            reader,
            next_id: 0,
        })
    }

    /// Calls a command and waits for its output.
    ///
    /// # Errors
    /// If the daemon refuses the command (the text is the daemon's), or has ended.
    pub(super) fn call(&mut self, method: &str, parameters: &[&str]) -> anyhow::Result<String> {
        let id = self.next_id;
        self.next_id += 1;
        let request = serde_json::json!({ "id": id, "method": method, "params": parameters });
        self.writer
            .write_all(request.to_string().as_bytes())
            .context("the daemon is gone")?;
        let mut messages = serde_json::Deserializer::from_reader(&mut self.reader);
        let reply = Reply::deserialize(&mut messages).context("no answer from the daemon")?;
        ensure!(reply.id == Some(id), "the answer is to another question");
        if let Some(error) = reply.error {
            let text = error
                .as_str()
                .map_or_else(|| error.to_string(), str::to_owned);
            bail!("{method} {}: {}", parameters.join(" "), text.trim());
        }
        reply.result.context("an answer without a result")
    }
}
