//! The versions of the protocol.

use std::fmt;
use std::str::FromStr;

/// A version of OpenFlow, by its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Version {
    /// OpenFlow 1.0.
    V10 = 1,
    /// OpenFlow 1.1.
    V11 = 2,
    /// OpenFlow 1.2.
    V12 = 3,
    /// OpenFlow 1.3.
    V13 = 4,
    /// OpenFlow 1.4.
    V14 = 5,
    /// OpenFlow 1.5.
    V15 = 6,
}

impl Version {
    /// All versions, the oldest first.
    pub const ALL: [Version; 6] = [
        Version::V10,
        Version::V11,
        Version::V12,
        Version::V13,
        Version::V14,
        Version::V15,
    ];

    /// The number in a message's first byte.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The version with this number on the wire.
    pub fn from_number(number: u8) -> Option<Version> {
        Version::ALL
            .into_iter()
            .find(|version| version.number() == number)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.number() - 1)
    }
}

/// A word that names no version.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no version of OpenFlow; write OpenFlow10 to OpenFlow15, or 1.0 to 1.5")]
pub struct UnknownVersion(String);

impl FromStr for Version {
    type Err = UnknownVersion;

    /// Reads `OpenFlow13`, as Open vSwitch writes versions, or `1.3`.
    fn from_str(text: &str) -> Result<Version, UnknownVersion> {
        let is_it = |version: &&Version| {
            let minor = version.number() - 1;
            text.eq_ignore_ascii_case(&format!("OpenFlow1{minor}")) || text == format!("1.{minor}")
        };
        let found = Version::ALL.iter().find(is_it);
        found
            .copied()
            .ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

/// A set of versions.
///
/// ```
/// use thalweg_openflow::{Version, Versions};
///
/// let ours = Versions::ALL;
/// let theirs: Versions = [Version::V10, Version::V13].into_iter().collect();
/// assert_eq!(ours.newest_in_common(theirs), Some(Version::V13));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Versions(u32);

impl Versions {
    /// OpenFlow 1.0 to 1.5.
    pub const ALL: Versions = Versions(0b111_1110);

    /// The set with these bits: bit `n` stands for the version with number `n` on the wire
    /// (OpenFlow 1.3.1, section 7.5.1). Other bits are dropped.
    pub fn from_bits(bits: u32) -> Versions {
        Versions(bits & Versions::ALL.0)
    }

    /// One bit for each version.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// All versions up to the one with this number, which may be one that does not exist yet.
    pub fn up_to(number: u8) -> Versions {
        let above = 2u32.checked_shl(number.into()).unwrap_or(0);
        Versions::from_bits(above.wrapping_sub(1))
    }

    /// Whether the set has no version.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has this version.
    pub fn contains(self, version: Version) -> bool {
        self.0 & (1 << version.number()) != 0
    }

    /// The versions in the set, the oldest first.
    pub fn iter(self) -> impl Iterator<Item = Version> {
        Version::ALL
            .into_iter()
            .filter(move |version| self.contains(*version))
    }

    /// The newest version of the set.
    pub fn newest(self) -> Option<Version> {
        self.iter().last()
    }

    /// The newest version that both sets have.
    pub fn newest_in_common(self, other: Versions) -> Option<Version> {
        Versions(self.0 & other.0).newest()
    }
}

impl FromIterator<Version> for Versions {
    fn from_iter<I: IntoIterator<Item = Version>>(versions: I) -> Versions {
        let bit = |version: Version| 1 << version.number();
        Versions(
            versions
                .into_iter()
                .map(bit)
                .fold(0, |bits, bit| bits | bit),
        )
    }
}
