//! The cases as `os_ken_cases.py` writes them.

use serde::Deserialize;

/// A case: messages that set it up, and packets with the expected results.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    /// Its file without the ending, from the folder of all cases on.
    file: String,
    name: String,
    /// OpenFlow messages.
    pub(crate) messages: Vec<Hex>,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// The folder: `action`, `group`, `match` or `meter`.
    pub(crate) fn folder(&self) -> &str {
        self.file.split('/').next().unwrap_or_default()
    }

    /// The name under which the page knows the case.
    pub(crate) fn title(&self) -> String {
        format!("{}: {}", self.file, self.name)
    }
}

/// Packets, and what becomes of them.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    /// The packets without the bytes that all end with.
    packets: Vec<Hex>,
    /// Those bytes.
    tail: Hex,
    /// How often all of them are sent.
    pub(crate) rounds: usize,
    pub(crate) expected: Expected,
}

impl Step {
    /// The packets of one round.
    pub(crate) fn packets(&self) -> Vec<Vec<u8>> {
        let whole = |head: &Hex| [&head.0[..], &self.tail.0].concat();
        self.packets.iter().map(whole).collect()
    }
}

/// What becomes of packets.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expected {
    /// Each leaves from port 2 as this one.
    Egress(Hex),
    /// Each comes to the controller as this one.
    PacketIn(Hex),
    /// One of these tables is asked, and none has a rule for them.
    TableMiss(Vec<u8>),
    /// The part of them that leaves from each of these ports.
    Shares(Vec<(u32, f64)>),
    /// Rates over time, which this runner does not measure.
    Rates,
}

/// Bytes in hexadecimal.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Hex(pub(crate) Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Hex, Self::Error> {
        let starts = (0..text.len()).step_by(2);
        let bytes = starts.map(|start| u8::from_str_radix(&text[start..start + 2], 16));
        Ok(Hex(bytes.collect::<Result<_, _>>()?))
    }
}

/// Reads all cases.
pub(crate) fn read() -> Vec<Case> {
    let path = std::env::var_os("THALWEG_SWITCH_TESTS")
        .expect("`cargo xtask switch-tests` sets THALWEG_SWITCH_TESTS to the file of cases");
    let text = std::fs::read_to_string(path).expect("the file of cases can be read");
    serde_json::from_str(&text).expect("the file has cases")
}
