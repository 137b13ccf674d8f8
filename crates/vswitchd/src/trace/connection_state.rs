//! The states of connections that `--ct-next` gives, one for each `ct` action to come.

/// The names of the bits, from the lowest (`CS_*` of Open vSwitch).
const NAMES: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

const NEW: u8 = 1;
const ESTABLISHED: u8 = 1 << 1;
const REPLY: u8 = 1 << 3;
const INVALID: u8 = 1 << 4;
const TRACKED: u8 = 1 << 5;

/// What a connection's tracking says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionState(u8);

/// A state that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectionStateError {
    /// A word that names no bit.
    #[error("{0}: unknown connection tracking state flag")]
    UnknownFlag(Box<str>),
    /// Bits that exclude each other.
    #[error("{0}")]
    Contradiction(Box<str>),
}

impl ConnectionState {
    /// The bits as Open vSwitch has them.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Reads words with commas between them.
    pub(super) fn read(text: &str) -> Result<ConnectionState, ConnectionStateError> {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        let mut bits = 0;
        for word in words {
            let place = NAMES.iter().position(|name| *name == word);
            let place = place.ok_or_else(|| ConnectionStateError::UnknownFlag(word.into()))?;
            bits |= 1 << place;
        }
        let state = ConnectionState(bits);
        match state.contradictions() {
            text if text.is_empty() => Ok(state),
            text => Err(ConnectionStateError::Contradiction(text.into())),
        }
    }

    fn contradictions(self) -> String {
        let has = |bits: u8| self.0 & bits != 0;
        let is_alone = |bits: u8| self.0 & !bits == 0;
        let faults = [
            (
                self.0 != 0 && !has(TRACKED),
                "If \"trk\" is unset, no other flags are set",
            ),
            (
                has(INVALID) && !is_alone(TRACKED | INVALID),
                "when \"inv\" is set, only \"trk\" may also be set",
            ),
            (
                has(NEW) && has(ESTABLISHED),
                "\"new\" and \"est\" are mutually exclusive",
            ),
            (
                has(NEW) && has(REPLY),
                "\"new\" and \"rpy\" are mutually exclusive",
            ),
        ];
        let faults = faults.into_iter().filter(|(is_so, _)| *is_so);
        let lines = faults.map(|(_, what)| format!("{self}: invalid connection state: {what}\n"));
        lines.collect()
    }
}

impl std::fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = NAMES.iter().enumerate();
        let named = named.filter(|(place, _)| self.0 >> place & 1 == 1);
        let names: Vec<&str> = named.map(|(_, name)| *name).collect();
        f.write_str(&names.join("|"))
    }
}
