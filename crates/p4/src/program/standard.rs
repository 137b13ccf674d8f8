//! The fields shared by program and switch, and the parser's error codes.
//!
//! v1model has them in `standard_metadata`. P4_14 programs have some in `intrinsic_metadata`
//! and `queueing_metadata`, to which newer JSON has aliases. Only `egress_spec` is required.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::json::Node;

use super::code::low_mask;
use super::headers::Headers;

/// A field of up to 64 bits that the switch reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Its word in the frame.
    pub word: u32,
    /// The mask of its bits.
    pub mask: u64,
}

impl Spot {
    /// Reads the field.
    pub(crate) fn get(self, words: &[u64]) -> u64 {
        words[self.word as usize]
    }

    /// Writes the bits of a number that fit.
    pub(crate) fn set(self, words: &mut [u64], value: u64) {
        words[self.word as usize] = value & self.mask;
    }
}

/// The fields; `None` for those that a program lacks.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of v1model.p4")]
pub struct Standard {
    pub egress_spec: Spot,
    pub ingress_port: Option<Spot>,
    pub packet_length: Option<Spot>,
    pub egress_port: Option<Spot>,
    pub instance_type: Option<Spot>,
    pub parser_error: Option<Spot>,
    pub checksum_error: Option<Spot>,
    pub mcast_grp: Option<Spot>,
    pub egress_rid: Option<Spot>,
    pub ingress_global_timestamp: Option<Spot>,
    pub egress_global_timestamp: Option<Spot>,
    pub enq_timestamp: Option<Spot>,
    pub enq_qdepth: Option<Spot>,
    pub deq_timedelta: Option<Spot>,
    pub deq_qdepth: Option<Spot>,
    pub priority: Option<Spot>,
}

impl Standard {
    /// The highest port that all of the program's port fields can hold.
    pub fn port_max(&self) -> u64 {
        let others = [self.egress_port, self.ingress_port];
        let masks = others.into_iter().flatten().map(|spot| spot.mask);
        masks.fold(self.egress_spec.mask, u64::min)
    }

    /// All fields that the program has.
    pub(crate) fn all(&self) -> impl Iterator<Item = Spot> {
        let rest = [
            self.ingress_port,
            self.packet_length,
            self.egress_port,
            self.instance_type,
            self.parser_error,
            self.checksum_error,
            self.mcast_grp,
            self.egress_rid,
            self.ingress_global_timestamp,
            self.egress_global_timestamp,
            self.enq_timestamp,
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
            self.priority,
        ];
        std::iter::once(self.egress_spec).chain(rest.into_iter().flatten())
    }

    pub(super) fn read(root: &Node<'_>, headers: &Headers) -> Result<Standard, LoadError> {
        let spot = |header: &str, field: &str| {
            let field = headers.field(headers.find_field(header, field)?);
            let is_word = field.words() == 1 && !field.is_varbit;
            is_word.then_some(Spot {
                word: field.word,
                mask: low_mask(field.width_bits),
            })
        };
        let standard = |field| spot("standard_metadata", field);
        let either = |header, field| spot(header, field).or_else(|| standard(field));
        let intrinsic = |field| either("intrinsic_metadata", field);
        let queueing = |field| either("queueing_metadata", field);
        let egress_spec = standard("egress_spec").ok_or_else(|| {
            root.refuse(
                "there is no field standard_metadata.egress_spec; this is no complete v1model \
                 program",
            )
        })?;
        Ok(Standard {
            egress_spec,
            ingress_port: standard("ingress_port"),
            packet_length: standard("packet_length"),
            egress_port: standard("egress_port"),
            instance_type: standard("instance_type"),
            parser_error: standard("parser_error"),
            checksum_error: standard("checksum_error"),
            mcast_grp: intrinsic("mcast_grp"),
            egress_rid: intrinsic("egress_rid"),
            ingress_global_timestamp: intrinsic("ingress_global_timestamp"),
            egress_global_timestamp: intrinsic("egress_global_timestamp"),
            enq_timestamp: queueing("enq_timestamp"),
            enq_qdepth: queueing("enq_qdepth"),
            deq_timedelta: queueing("deq_timedelta"),
            deq_qdepth: queueing("deq_qdepth"),
            priority: intrinsic("priority"),
        })
    }
}

/// The program's numbers for the parser's errors.
#[derive(Clone, Debug)]
pub struct ErrorCodes {
    /// The packet has fewer bytes than were requested.
    pub packet_too_short: u64,
    /// A stack is full, or empty.
    pub stack_out_of_bounds: u64,
    /// A varbit field exceeds the maximum of its header.
    pub header_too_short: u64,
    /// A length is no whole number of bytes.
    pub parser_invalid_argument: u64,
    /// All names, by number.
    pub names: HashMap<u64, String>,
}

impl ErrorCodes {
    /// An error that the JSON does not name has its number from core.p4's order.
    pub(super) fn read(root: &Node<'_>) -> Result<ErrorCodes, LoadError> {
        let mut names = HashMap::new();
        for node in root.list("errors")? {
            let number = u64::from(node.at(1)?.number()?);
            names.insert(number, node.at(0)?.text()?.to_owned());
        }
        let number = |name: &str, usual: u64| {
            let found = names.iter().find(|(_, one)| *one == name);
            found.map_or(usual, |(&number, _)| number)
        };
        Ok(ErrorCodes {
            packet_too_short: number("PacketTooShort", 1),
            stack_out_of_bounds: number("StackOutOfBounds", 3),
            header_too_short: number("HeaderTooShort", 4),
            parser_invalid_argument: number("ParserInvalidArgument", 6),
            names,
        })
    }
}
