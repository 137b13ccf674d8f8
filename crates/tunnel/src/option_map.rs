//! The map from Geneve's options to the fields `tun_metadata0` to `tun_metadata63`.
//!
//! A controller maps an option's class, type and length to a field (`ovs-ofctl add-tlv-map`). From
//! then on rules match and set the field, and packets carry it as that option. The checks and
//! their order are Open vSwitch's (`lib/tun-metadata.c`, `decode_tlv_table_mappings` of
//! `lib/ofp-match.c`).
//!
//! 1. A request is done whole or not at all.
//! 2. No two fields have the same class and type, and all fields together fit 256 bytes.
//! 3. Options that are made of values are read as the same values.

use thalweg_packet::wire::GeneveOption;

use crate::{EncapsulateError, TunnelOptions};

/// The number of fields.
pub const FIELD_COUNT: usize = 64;
/// Bytes of all fields together.
pub const FIELD_SPACE_BYTES: usize = 256;
/// Bytes of the longest field: the most that an option can have (RFC 8926 section 3.5).
pub const FIELD_MAX_BYTES: usize = 124;

/// An option and its field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OptionMapping {
    /// The option's class.
    pub class: u16,
    /// The option's type; the high bit says that it is critical.
    pub kind: u8,
    /// The option's length in bytes: a multiple of four, at most 124.
    pub len_bytes: u8,
    /// The number of the field.
    pub index: u16,
}

/// Why a request to change the map is refused, by the names of OpenFlow's errors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionMapError {
    /// `NXTTMFC_BAD_OPT_LEN`.
    #[error("an option of {0} bytes cannot be mapped; use a multiple of 4 up to 124")]
    BadLength(u8),
    /// `NXTTMFC_BAD_FIELD_IDX`.
    #[error("there is no field tun_metadata{0}; use 0 to 63")]
    BadIndex(u16),
    /// `NXTTMFC_ALREADY_MAPPED`.
    #[error("tun_metadata{0} is mapped already; delete its mapping first")]
    AlreadyMapped(u16),
    /// `NXTTMFC_DUP_ENTRY`.
    #[error("the option of class {class:#x} and type {kind:#x} is mapped to another field already")]
    Duplicate {
        /// The option's class.
        class: u16,
        /// The option's type.
        kind: u8,
    },
    /// `NXTTMFC_TABLE_FULL`.
    #[error("tun_metadata{0} does not fit: all fields together have 256 bytes")]
    TableFull(u16),
    /// `NXTTMFC_INVALID_TLV_DEL`.
    #[error("tun_metadata{0} is used by a rule; delete the rule first")]
    InUse(u16),
}

/// Why the options of a packet have no values, so that the packet must be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionRefusal {
    /// A critical option is not mapped.
    #[error("the critical Geneve option of class {class:#x} and type {kind:#x} is not known")]
    UnknownCritical {
        /// The option's class.
        class: u16,
        /// The option's type.
        kind: u8,
    },
    /// An option has another length than its field.
    #[error("the Geneve option of class {class:#x} and type {kind:#x} has {len_bytes} bytes")]
    BadLength {
        /// The option's class.
        class: u16,
        /// The option's type.
        kind: u8,
        /// The option's length.
        len_bytes: u8,
    },
}

/// An option that a field stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mapped {
    class: u16,
    kind: u8,
    len_bytes: u8,
}

/// The map of a bridge.
///
/// ```
/// use thalweg_tunnel::{OptionMap, OptionMapping, OptionValues};
///
/// let mut map = OptionMap::default();
/// map.add(&[OptionMapping { class: 0x102, kind: 0x80, len_bytes: 4, index: 0 }])?;
/// let mut values = OptionValues::default();
/// map.set(&mut values, 0, &[0x0a]);
/// let options = map.options_of(&values)?;
/// assert_eq!(options.bytes(), [0x01, 0x02, 0x80, 0x01, 0, 0, 0, 0x0a]);
/// assert_eq!(map.values_of(&options)?.get(0), Some(&[0, 0, 0, 0x0a][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionMap {
    fields: [Option<Mapped>; FIELD_COUNT],
}

impl Default for OptionMap {
    /// No field is mapped.
    fn default() -> Self {
        OptionMap {
            fields: [None; FIELD_COUNT],
        }
    }
}

impl OptionMap {
    /// Maps fields.
    ///
    /// # Errors
    /// If a length or an index is impossible, a field or an option is mapped already, or the
    /// fields do not fit; then no field is mapped.
    pub fn add(&mut self, mappings: &[OptionMapping]) -> Result<(), OptionMapError> {
        for mapping in mappings {
            let len = mapping.len_bytes;
            if !len.is_multiple_of(4) || usize::from(len) > FIELD_MAX_BYTES {
                return Err(OptionMapError::BadLength(len));
            }
            slot(mapping.index)?;
        }
        let mut changed = self.clone();
        for mapping in mappings {
            changed.add_one(mapping)?;
        }
        *self = changed;
        Ok(())
    }

    fn add_one(&mut self, mapping: &OptionMapping) -> Result<(), OptionMapError> {
        let slot = slot(mapping.index)?;
        if self.fields[slot].is_some() {
            return Err(OptionMapError::AlreadyMapped(mapping.index));
        }
        let (class, kind) = (mapping.class, mapping.kind);
        if self.find(class, kind).is_some() {
            return Err(OptionMapError::Duplicate { class, kind });
        }
        if self.used_bytes() + usize::from(mapping.len_bytes) > FIELD_SPACE_BYTES {
            return Err(OptionMapError::TableFull(mapping.index));
        }
        self.fields[slot] = Some(Mapped {
            class,
            kind,
            len_bytes: mapping.len_bytes,
        });
        Ok(())
    }

    /// Ends the mappings of fields; those that are not mapped are skipped.
    ///
    /// `is_used` says whether a rule uses a field.
    ///
    /// # Errors
    /// If an index is impossible or a field is used; then no mapping ends.
    pub fn delete(
        &mut self,
        indexes: &[u16],
        is_used: impl Fn(u16) -> bool,
    ) -> Result<(), OptionMapError> {
        for index in indexes {
            let is_mapped = self.fields[slot(*index)?].is_some();
            if is_mapped && is_used(*index) {
                return Err(OptionMapError::InUse(*index));
            }
        }
        for index in indexes {
            self.fields[slot(*index)?] = None;
        }
        Ok(())
    }

    /// Ends all mappings.
    ///
    /// # Errors
    /// If a field is used; then no mapping ends.
    pub fn clear(&mut self, is_used: impl Fn(u16) -> bool) -> Result<(), OptionMapError> {
        let indexes: Vec<u16> = self.mappings().map(|mapping| mapping.index).collect();
        self.delete(&indexes, is_used)
    }

    /// The mappings, by field.
    pub fn mappings(&self) -> impl Iterator<Item = OptionMapping> + '_ {
        (0..FIELD_COUNT as u16).filter_map(|index| self.mapping(index))
    }

    /// The mapping of a field.
    pub fn mapping(&self, index: u16) -> Option<OptionMapping> {
        let mapped = self.mapped(index)?;
        Some(OptionMapping {
            class: mapped.class,
            kind: mapped.kind,
            len_bytes: mapped.len_bytes,
            index,
        })
    }

    /// Bytes of all mapped fields.
    pub fn used_bytes(&self) -> usize {
        let lengths = self.fields.iter().flatten();
        lengths.map(|mapped| usize::from(mapped.len_bytes)).sum()
    }

    /// The values of the fields in a packet with these options.
    ///
    /// Options that are neither mapped nor critical have no value. The last of several equal ones
    /// counts.
    ///
    /// # Errors
    /// If the packet must be dropped: a critical option is not mapped, or a length is wrong.
    pub fn values_of(&self, options: &TunnelOptions) -> Result<OptionValues, OptionRefusal> {
        let mut values = OptionValues::default();
        for option in options.iter() {
            let (class, kind) = (option.class, option.kind);
            let Some(index) = self.find(class, kind) else {
                if option.is_critical() {
                    return Err(OptionRefusal::UnknownCritical { class, kind });
                }
                continue;
            };
            let len_bytes = option.data.len() as u8;
            if self.len_of(index) != Some(option.data.len()) {
                return Err(OptionRefusal::BadLength {
                    class,
                    kind,
                    len_bytes,
                });
            }
            values.store(index, option.data);
        }
        Ok(values)
    }

    /// The options of a packet with these values, by field.
    ///
    /// A value whose field is not mapped any more, or to another length, is left out.
    ///
    /// # Errors
    /// [`EncapsulateError::OptionsTooLong`] for more than a header can have.
    pub fn options_of(&self, values: &OptionValues) -> Result<TunnelOptions, EncapsulateError> {
        let mut options = TunnelOptions::default();
        for index in 0..FIELD_COUNT as u16 {
            let (Some(mapped), Some(data)) = (self.mapped(index), values.get(index)) else {
                continue;
            };
            if usize::from(mapped.len_bytes) == data.len() {
                options.push(&GeneveOption {
                    class: mapped.class,
                    kind: mapped.kind,
                    data,
                })?;
            }
        }
        Ok(options)
    }

    /// Sets a field to a number, whose low bytes are the field's; false if it is not mapped.
    pub fn set(&self, values: &mut OptionValues, index: u16, number: &[u8]) -> bool {
        let Some(len) = self.len_of(index) else {
            return false;
        };
        let mut data = [0; FIELD_MAX_BYTES];
        let count = number.len().min(len);
        data[len - count..len].copy_from_slice(&number[number.len() - count..]);
        values.store(index, &data[..len])
    }

    fn find(&self, class: u16, kind: u8) -> Option<u16> {
        let is_it = |field: &Option<Mapped>| {
            field.is_some_and(|mapped| (mapped.class, mapped.kind) == (class, kind))
        };
        let found = self.fields.iter().position(is_it);
        found.map(|index| index as u16)
    }

    fn mapped(&self, index: u16) -> Option<Mapped> {
        *self.fields.get(usize::from(index))?
    }

    fn len_of(&self, index: u16) -> Option<usize> {
        self.mapped(index)
            .map(|mapped| usize::from(mapped.len_bytes))
    }
}

/// The place of a field.
fn slot(index: u16) -> Result<usize, OptionMapError> {
    match usize::from(index) {
        slot if slot < FIELD_COUNT => Ok(slot),
        _ => Err(OptionMapError::BadIndex(index)),
    }
}

/// Where the value of a field lies.
#[derive(Clone, Copy, Default)]
struct Span {
    start: u16,
    len: u8,
}

/// The values of the fields `tun_metadata0` to `tun_metadata63` of a packet.
///
/// A field without a value is not present: its option is not in the packet. A value of zero length
/// is present.
#[derive(Clone)]
pub struct OptionValues {
    present: u64,
    spans: [Span; FIELD_COUNT],
    bytes: [u8; FIELD_SPACE_BYTES],
    used: usize,
}

impl Default for OptionValues {
    /// No field is present.
    fn default() -> Self {
        OptionValues {
            present: 0,
            spans: [Span::default(); FIELD_COUNT],
            bytes: [0; FIELD_SPACE_BYTES],
            used: 0,
        }
    }
}

impl OptionValues {
    /// A bit for each field that is present.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Whether a field is present.
    pub fn is_present(&self, index: u16) -> bool {
        usize::from(index) < FIELD_COUNT && self.present >> index & 1 == 1
    }

    /// The value of a field, as long as its option.
    pub fn get(&self, index: u16) -> Option<&[u8]> {
        if !self.is_present(index) {
            return None;
        }
        let span = self.spans[usize::from(index)];
        let start = usize::from(span.start);
        Some(&self.bytes[start..start + usize::from(span.len)])
    }

    /// The value of a field as a number of 124 bytes; zero if it is not present.
    pub fn number(&self, index: u16) -> [u8; FIELD_MAX_BYTES] {
        let mut number = [0; FIELD_MAX_BYTES];
        let value = self.get(index).unwrap_or_default();
        number[FIELD_MAX_BYTES - value.len()..].copy_from_slice(value);
        number
    }

    /// Removes a field.
    pub fn delete(&mut self, index: u16) {
        if !self.is_present(index) {
            return;
        }
        let gone = self.spans[usize::from(index)];
        let (start, len) = (usize::from(gone.start), usize::from(gone.len));
        self.bytes.copy_within(start + len..self.used, start);
        self.used -= len;
        for span in &mut self.spans {
            if span.start > gone.start {
                span.start -= u16::from(gone.len);
            }
        }
        self.present &= !(1 << index);
        self.spans[usize::from(index)] = Span::default();
    }

    /// Sets a field; false if there is no room for it, which can be only after the map was changed.
    fn store(&mut self, index: u16, value: &[u8]) -> bool {
        self.delete(index);
        let end = self.used + value.len();
        let Some(room) = self.bytes.get_mut(self.used..end) else {
            return false;
        };
        room.copy_from_slice(value);
        self.spans[usize::from(index)] = Span {
            start: self.used as u16,
            len: value.len() as u8,
        };
        self.used = end;
        self.present |= 1 << index;
        true
    }
}

impl PartialEq for OptionValues {
    fn eq(&self, other: &OptionValues) -> bool {
        let mut indexes = 0..FIELD_COUNT as u16;
        self.present == other.present && indexes.all(|index| self.get(index) == other.get(index))
    }
}

impl Eq for OptionValues {}

impl std::fmt::Debug for OptionValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let indexes = (0..FIELD_COUNT as u16).filter_map(|index| Some((index, self.get(index)?)));
        f.debug_map().entries(indexes).finish()
    }
}
