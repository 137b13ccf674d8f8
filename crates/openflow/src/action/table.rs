//! The list of actions' forms: whose number, in which versions, and how long.
//!
//! A row has the form, its owner, first and last version, number, and shape. Numbers: OpenFlow
//! 1.5.1, section 7.2.6, its predecessors, and Open vSwitch, `ovs-actions(7)`.

use std::sync::LazyLock;

use self::Kind::*;
use self::Owner::{Nicira, Onf, Standard};
use self::Shape::{Fixed, Number, Open, Void};
use crate::version::Version::{self, V10, V11, V12, V13, V14, V15};

/// A form of an action on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Output10,
    Output11,
    SetVlanVid10,
    SetVlanVid11,
    SetVlanPcp10,
    SetVlanPcp11,
    StripVlan,
    PushVlan,
    SetDlSrc,
    SetDlDst,
    SetNwSrc,
    SetNwDst,
    SetNwTos,
    SetNwEcn,
    SetNwTtl,
    SetTpSrc,
    SetTpDst,
    Enqueue,
    SetMplsLabel,
    SetMplsTc,
    SetMplsTtl,
    DecMplsTtl,
    PushMpls,
    PopMpls,
    SetQueue,
    Group,
    DecTtl,
    DecTtlIds,
    SetField12,
    SetField15,
    Load,
    Load2,
    CopyField,
    CopyFieldOnf,
    Move,
    Meter,
    Resubmit,
    ResubmitTable,
    ResubmitTableCt,
    SetTunnel,
    SetTunnel64,
    PopQueue,
    Note,
    Multipath,
    Bundle,
    BundleLoad,
    OutputField,
    OutputField2,
    Learn,
    Learn2,
    Exit,
    FinTimeout,
    Controller,
    Controller2,
    WriteMetadata,
    StackPush,
    StackPop,
    Sample,
    Sample2,
    Sample3,
    Sample4,
    Conjunction,
    Ct,
    Nat,
    OutputTruncated,
    Clone,
    CtClear,
    Encap,
    Decap,
    DecNshTtl,
    CheckPacketLarger,
    DeleteField,
    DebugSlow,
    DebugRecirc,
}

/// Whose number a form has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Standard,
    Nicira,
    Onf,
}

/// How long a form is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// A header alone.
    Void,
    /// A number of this many bytes, aligned to its size.
    Number(u8),
    /// Exactly this many bytes, with the header.
    Fixed(u8),
    /// At least this many bytes, with the header.
    Open(u8),
}

/// A form's number in some versions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) owner: Owner,
    pub(super) first: Version,
    pub(super) last: Version,
    pub(super) number: u16,
    pub(super) shape: Shape,
}

impl Owner {
    /// Bytes in front of the body.
    pub(super) fn header_bytes(self) -> usize {
        match self {
            Owner::Standard => 4,
            Owner::Nicira | Owner::Onf => 10,
        }
    }

    pub(super) fn experimenter(self) -> Option<u32> {
        match self {
            Owner::Standard => None,
            Owner::Nicira => Some(crate::NICIRA),
            Owner::Onf => Some(crate::ONF),
        }
    }
}

impl Row {
    /// The bytes that it needs, and whether it may have more.
    pub(super) fn length(&self) -> (usize, bool) {
        let header = self.owner.header_bytes();
        match self.shape {
            Void => (header.next_multiple_of(8), false),
            Number(bytes) => {
                let bytes = usize::from(bytes);
                let end = header.next_multiple_of(bytes) + bytes;
                (end.next_multiple_of(8), false)
            }
            Fixed(bytes) => (bytes.into(), false),
            Open(bytes) => (bytes.into(), true),
        }
    }
}

const NUMBERS: usize = 256;
const OWNERS: usize = 2;

static BY_NUMBER: LazyLock<Vec<Option<&'static Row>>> = LazyLock::new(|| {
    let mut list = vec![None; Version::ALL.len() * OWNERS * NUMBERS];
    for row in ROWS.iter().filter(|row| row.owner != Onf) {
        for version in Version::ALL {
            if row.first <= version && version <= row.last {
                list[place(version, row.owner, row.number)] = Some(row);
            }
        }
    }
    list
});

fn place(version: Version, owner: Owner, number: u16) -> usize {
    let versions = usize::from(version.number() - 1);
    (versions * OWNERS + usize::from(owner == Nicira)) * NUMBERS + usize::from(number)
}

/// The form with this number.
pub(super) fn find(version: Version, owner: Owner, number: u16) -> Option<&'static Row> {
    if owner == Onf {
        let mut rows = ROWS
            .iter()
            .filter(|row| row.owner == Onf && row.number == number);
        return rows.find(|row| row.first <= version && version <= row.last);
    }
    if usize::from(number) >= NUMBERS {
        return None;
    }
    BY_NUMBER[place(version, owner, number)]
}

static BY_KIND: LazyLock<Vec<Option<&'static Row>>> = LazyLock::new(|| {
    let mut list = vec![None; (DebugRecirc as usize + 1) * Version::ALL.len()];
    for row in ROWS {
        for version in Version::ALL {
            if row.first <= version && version <= row.last {
                list[place_of_kind(row.kind, version)] = Some(row);
            }
        }
    }
    list
});

fn place_of_kind(kind: Kind, version: Version) -> usize {
    kind as usize * Version::ALL.len() + usize::from(version.number() - 1)
}

/// How a version writes a form; `None` if it has none.
pub(super) fn row(kind: Kind, version: Version) -> Option<&'static Row> {
    BY_KIND[place_of_kind(kind, version)]
}

macro_rules! rows {
    ($($kind:ident: $owner:ident $first:ident $last:ident $number:literal $shape:expr;)*) => {
        /// All forms.
        pub(super) static ROWS: &[Row] = &[$(Row {
            kind: $kind,
            owner: $owner,
            first: $first,
            last: $last,
            number: $number,
            shape: $shape,
        }),*];
    };
}

rows! {
    Output10: Standard V10 V10 0 Fixed(8);
    Output11: Standard V11 V15 0 Fixed(16);
    SetVlanVid10: Standard V10 V10 1 Number(2);
    SetVlanVid11: Standard V11 V15 1 Number(2);
    SetVlanPcp10: Standard V10 V10 2 Number(1);
    SetVlanPcp11: Standard V11 V15 2 Number(1);
    StripVlan: Standard V10 V10 3 Void;
    StripVlan: Standard V11 V15 18 Void;
    PushVlan: Standard V11 V15 17 Number(2);
    SetDlSrc: Standard V10 V10 4 Fixed(16);
    SetDlSrc: Standard V11 V15 3 Fixed(16);
    SetDlDst: Standard V10 V10 5 Fixed(16);
    SetDlDst: Standard V11 V15 4 Fixed(16);
    SetNwSrc: Standard V10 V10 6 Number(4);
    SetNwSrc: Standard V11 V15 5 Number(4);
    SetNwDst: Standard V10 V10 7 Number(4);
    SetNwDst: Standard V11 V15 6 Number(4);
    SetNwTos: Standard V10 V10 8 Number(1);
    SetNwTos: Standard V11 V15 7 Number(1);
    SetNwEcn: Standard V11 V15 8 Number(1);
    SetNwTtl: Standard V11 V15 23 Number(1);
    SetTpSrc: Standard V10 V15 9 Number(2);
    SetTpDst: Standard V10 V15 10 Number(2);
    Enqueue: Standard V10 V10 11 Fixed(16);
    SetMplsLabel: Nicira V10 V10 30 Number(4);
    SetMplsLabel: Standard V11 V15 13 Number(4);
    SetMplsTc: Nicira V10 V10 31 Number(1);
    SetMplsTc: Standard V11 V15 14 Number(1);
    SetMplsTtl: Nicira V10 V10 25 Number(1);
    SetMplsTtl: Standard V11 V15 15 Number(1);
    DecMplsTtl: Nicira V10 V10 26 Void;
    DecMplsTtl: Standard V11 V15 16 Void;
    PushMpls: Nicira V10 V10 23 Number(2);
    PushMpls: Standard V11 V15 19 Number(2);
    PopMpls: Nicira V10 V10 24 Number(2);
    PopMpls: Standard V11 V15 20 Number(2);
    SetQueue: Nicira V10 V10 4 Number(4);
    SetQueue: Standard V11 V15 21 Number(4);
    Group: Nicira V10 V10 40 Number(4);
    Group: Standard V11 V15 22 Number(4);
    DecTtl: Nicira V10 V10 18 Void;
    DecTtl: Standard V11 V15 24 Void;
    DecTtlIds: Nicira V10 V15 21 Open(16);
    SetField12: Standard V12 V14 25 Open(8);
    SetField15: Standard V15 V15 25 Open(8);
    Load: Nicira V10 V14 7 Fixed(24);
    Load2: Nicira V10 V14 33 Open(16);
    CopyField: Standard V15 V15 28 Open(16);
    CopyFieldOnf: Onf V13 V14 3200 Open(24);
    Move: Nicira V10 V14 6 Open(16);
    Meter: Standard V15 V15 29 Number(4);
    Resubmit: Nicira V10 V15 1 Number(2);
    ResubmitTable: Nicira V10 V15 14 Fixed(16);
    ResubmitTableCt: Nicira V10 V15 44 Fixed(16);
    SetTunnel: Nicira V10 V15 2 Number(4);
    SetTunnel64: Nicira V10 V15 9 Number(8);
    PopQueue: Nicira V10 V15 5 Void;
    Note: Nicira V10 V15 8 Open(16);
    Multipath: Nicira V10 V15 10 Fixed(32);
    Bundle: Nicira V10 V15 12 Open(32);
    BundleLoad: Nicira V10 V15 13 Open(32);
    OutputField: Nicira V10 V15 15 Fixed(24);
    OutputField2: Nicira V10 V15 32 Fixed(24);
    Learn: Nicira V10 V15 16 Open(32);
    Learn2: Nicira V10 V15 45 Open(40);
    Exit: Nicira V10 V15 17 Void;
    FinTimeout: Nicira V10 V15 19 Fixed(16);
    Controller: Nicira V10 V15 20 Fixed(16);
    Controller2: Nicira V10 V15 37 Open(16);
    WriteMetadata: Nicira V10 V15 22 Fixed(32);
    StackPush: Nicira V10 V15 27 Fixed(24);
    StackPop: Nicira V10 V15 28 Fixed(24);
    Sample: Nicira V10 V15 29 Fixed(24);
    Sample2: Nicira V10 V15 38 Fixed(32);
    Sample3: Nicira V10 V15 41 Fixed(32);
    Sample4: Nicira V10 V15 51 Fixed(40);
    Conjunction: Nicira V10 V15 34 Fixed(16);
    Ct: Nicira V10 V15 35 Open(24);
    Nat: Nicira V10 V15 36 Open(16);
    OutputTruncated: Nicira V10 V15 39 Fixed(16);
    Clone: Nicira V10 V15 42 Open(16);
    CtClear: Nicira V10 V15 43 Void;
    Encap: Nicira V13 V15 46 Open(16);
    Decap: Nicira V13 V15 47 Open(16);
    DecNshTtl: Nicira V13 V15 48 Void;
    CheckPacketLarger: Nicira V10 V15 49 Fixed(24);
    DeleteField: Nicira V10 V15 50 Fixed(24);
    DebugSlow: Nicira V10 V15 254 Void;
    DebugRecirc: Nicira V10 V15 255 Void;
}
