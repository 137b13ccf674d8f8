//! The database of a switch, as far as ports of `br0` need it (RFC 7047).
//!
//! 1. One transaction is under way at a time.
//! 2. A switch has followed a transaction when it has written its number (`cur_cfg`).

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::de::IoRead;
use serde_json::{Deserializer, StreamDeserializer, Value, json};

/// The longest wait for a switch before it is asked whether it lives.
const PATIENCE_MS: u64 = 5_000;

type Messages = StreamDeserializer<'static, IoRead<BufReader<UnixStream>>, Value>;

/// A connection to the database.
pub(super) struct Database {
    socket: UnixStream,
    messages: Messages,
}

impl Database {
    /// Connects.
    ///
    /// # Errors
    /// If nothing listens.
    pub(super) fn connect(path: &Path) -> Result<Database> {
        let socket = UnixStream::connect(path)?;
        let reader = BufReader::new(socket.try_clone()?);
        Ok(Database {
            socket,
            messages: Deserializer::from_reader(reader).into_iter(),
        })
    }

    /// Adds dummy ports with these names in one transaction, and returns its number.
    ///
    /// # Errors
    /// If the database refuses.
    pub(super) fn add(&mut self, names: &[String]) -> Result<Value> {
        let mut operations = Vec::new();
        let mut ports = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let (port, interface) = (format!("p{place}"), format!("i{place}"));
            operations.push(json!({
                "op": "insert", "table": "Interface", "uuid-name": interface,
                "row": {"name": name, "type": "dummy"},
            }));
            operations.push(json!({
                "op": "insert", "table": "Port", "uuid-name": port,
                "row": {"name": name, "interfaces": ["named-uuid", interface]},
            }));
            ports.push(json!(["named-uuid", port]));
        }
        operations.push(json!({
            "op": "mutate", "table": "Bridge", "where": [],
            "mutations": [["ports", "insert", ["set", ports]]],
        }));
        self.configure(operations)
    }

    /// Removes all ports but the bridge's own in one transaction, and returns its number.
    ///
    /// # Errors
    /// If the database refuses.
    pub(super) fn remove_all(&mut self) -> Result<Value> {
        let own = self.transact(vec![json!({
            "op": "select", "table": "Port", "where": [["name", "==", "br0"]],
            "columns": ["_uuid"],
        })])?;
        let own = own.pointer("/0/rows/0/_uuid").context("no br0")?.clone();
        self.configure(vec![json!({
            "op": "update", "table": "Bridge", "where": [], "row": {"ports": own},
        })])
    }

    /// Waits for a while until the switch has followed a transaction; returns whether it has
    /// (invariant 2).
    ///
    /// # Errors
    /// If the database refuses.
    pub(super) fn is_followed(&mut self, number: &Value) -> Result<bool> {
        let results = self.results_of(vec![json!({
            "op": "wait", "table": "Open_vSwitch", "where": [], "columns": ["cur_cfg"],
            "until": "==", "rows": [{"cur_cfg": number}], "timeout": PATIENCE_MS,
        })])?;
        match results.pointer("/0/error").and_then(Value::as_str) {
            Some("timed out") => Ok(false),
            _ => accepted(results).map(|_| true),
        }
    }

    /// Makes a transaction, and returns its number.
    fn configure(&mut self, mut operations: Vec<Value>) -> Result<Value> {
        operations.push(json!({
            "op": "mutate", "table": "Open_vSwitch", "where": [],
            "mutations": [["next_cfg", "+=", 1]],
        }));
        operations.push(json!({
            "op": "select", "table": "Open_vSwitch", "where": [], "columns": ["next_cfg"],
        }));
        let told = self.transact(operations)?;
        let told = told.as_array().and_then(|results| results.last());
        let number = told.and_then(|last| last.pointer("/rows/0/next_cfg"));
        number
            .cloned()
            .context("the database does not tell next_cfg")
    }

    fn transact(&mut self, operations: Vec<Value>) -> Result<Value> {
        accepted(self.results_of(operations)?)
    }

    /// The results of a transaction, which may be errors.
    fn results_of(&mut self, operations: Vec<Value>) -> Result<Value> {
        let mut parameters = vec![json!("Open_vSwitch")];
        parameters.extend(operations);
        self.send(&json!({"method": "transact", "params": parameters, "id": 1}))?;
        for message in &mut self.messages {
            let message = message?;
            if message["method"] == "echo" {
                let reply = json!({"id": message["id"], "result": message["params"],
                    "error": null});
                self.socket.write_all(reply.to_string().as_bytes())?;
                continue;
            }
            let error = &message["error"];
            ensure!(error.is_null(), "the database refuses: {error}");
            return Ok(message["result"].clone());
        }
        bail!("the database has ended the connection");
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.socket.write_all(message.to_string().as_bytes())?)
    }
}

/// The results, if none is an error.
fn accepted(results: Value) -> Result<Value> {
    let mut each = results.as_array().into_iter().flatten();
    let refused = each.find(|result| result.get("error").is_some());
    if let Some(refused) = refused {
        bail!("the database refuses: {refused}");
    }
    Ok(results)
}
