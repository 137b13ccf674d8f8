//! Writes actions with their headers. `encode.rs` says what each form has behind it.

use super::table::{self, Kind};
use crate::matching::Match;
use crate::version::Version;
use crate::wire::Writer;

const EXPERIMENTER: u16 = 0xffff;

/// What the conditions and the actions so far say of a packet.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Context {
    pub(super) has_vlan: bool,
    pub(super) protocol: Option<u8>,
}

impl Context {
    pub(super) fn of(matching: &Match) -> Context {
        Context {
            has_vlan: matching
                .vlan()
                .is_some_and(|(value, _)| value & 0x1000 != 0),
            protocol: matching.ip_protocol(),
        }
    }
}

/// Writes actions in the forms of a version.
pub(super) struct Encoder<'w> {
    pub(super) version: Version,
    pub(super) context: Context,
    pub(super) writer: &'w mut Writer,
}

impl<'w> Encoder<'w> {
    pub(super) fn new(version: Version, context: Context, writer: &'w mut Writer) -> Encoder<'w> {
        Encoder {
            version,
            context,
            writer,
        }
    }

    /// Writes an action of this form, if the version has it.
    pub(super) fn put(&mut self, kind: Kind, body: impl FnOnce(&mut Writer)) {
        let Some(row) = table::row(kind, self.version) else {
            return;
        };
        let start = self.writer.len();
        match row.owner.experimenter() {
            None => {
                self.writer.u16(row.number);
                self.writer.u16(0);
            }
            Some(experimenter) => {
                self.writer.u16(EXPERIMENTER);
                self.writer.u16(0);
                self.writer.u32(experimenter);
                self.writer.u16(row.number);
            }
        }
        body(self.writer);
        let written = self.writer.len() - start;
        self.writer.zeros(row.length().0.saturating_sub(written));
        self.writer.pad_to_8(start);
        self.writer.patch_length(start + 2, start);
    }
}
