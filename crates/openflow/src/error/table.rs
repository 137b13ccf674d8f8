//! All errors that a switch or a controller can name, with their numbers in each version.
//!
//! A row has the error's name and its numbers: whose they are, the first and the last version
//! that has them, type and code. Where one number stands for two errors of a later version,
//! the upper row is the one that a message with that number is read as.
//!
//! Names and numbers are those of the OpenFlow specifications and, with `NX` in front, of Open
//! vSwitch (`ovs-ofctl` prints these names).

use super::{Owner, Row};
use crate::version::Version::{self, V10, V11, V12, V13, V14, V15};
use Owner::{Nicira, Onf, Standard};

/// The type of an error whose number belongs to an experimenter (OpenFlow 1.2 and later).
pub(super) const EXPERIMENTER: u16 = 0xffff;

macro_rules! errors {
    ($($name:ident: $($owner:ident $first:ident $last:ident $kind:tt $code:literal),+;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Position { $($name),* }
        impl super::ErrorCode {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub const $name: super::ErrorCode = super::ErrorCode(Position::$name as u16);
            )*
        }
        /// The rows, in the order of the constants.
        pub(super) static ROWS: &[Row] = &[
            $(Row {
                name: stringify!($name),
                numbers: &[$(($owner, $first, $last, $kind, $code)),+],
            }),*
        ];
    };
}

/// One number of an error: owner, first and last version, type, code.
pub(super) type Number = (Owner, Version, Version, u16, u16);

errors! {
    OFPHFC_INCOMPATIBLE: Standard V10 V15 0 0;
    OFPHFC_EPERM: Standard V10 V15 0 1;
    OFPBRC_BAD_VERSION: Standard V10 V15 1 0;
    OFPBRC_BAD_TYPE: Standard V10 V15 1 1;
    OFPBRC_BAD_STAT: Standard V10 V15 1 2;
    OFPBRC_BAD_VENDOR: Standard V10 V15 1 3;
    OFPBRC_BAD_SUBTYPE: Standard V10 V15 1 4;
    OFPBRC_EPERM: Standard V10 V15 1 5;
    OFPBRC_BAD_LEN: Standard V10 V15 1 6;
    OFPBRC_BUFFER_EMPTY: Standard V10 V15 1 7;
    OFPBRC_BUFFER_UNKNOWN: Standard V10 V15 1 8;
    OFPBRC_BAD_TABLE_ID: Nicira V10 V10 1 512, Standard V11 V15 1 9;
    OFPBRC_IS_SECONDARY: Standard V10 V11 1 5, Standard V12 V15 1 10;
    OFPBRC_BAD_PORT: Nicira V10 V11 1 514, Standard V12 V15 1 11;
    OFPBRC_BAD_PACKET: Standard V12 V15 1 12;
    OFPBRC_MULTIPART_BUFFER_OVERFLOW: Standard V13 V15 1 13;
    OFPBRC_MULTIPART_REQUEST_TIMEOUT: Onf V13 V13 EXPERIMENTER 2640, Standard V14 V15 1 14;
    OFPBRC_MULTIPART_REPLY_TIMEOUT: Onf V13 V13 EXPERIMENTER 2641, Standard V14 V15 1 15;
    OFPBRC_MULTIPART_BAD_SCHED: Standard V15 V15 1 16;
    OFPBRC_PIPELINE_FIELDS_ONLY: Standard V15 V15 1 17;
    OFPBRC_UNKNOWN: Standard V15 V15 1 18;
    NXBRC_NXM_INVALID: Nicira V10 V11 1 256, Nicira V12 V15 EXPERIMENTER 2;
    NXBRC_NXM_BAD_TYPE: Nicira V10 V11 1 257, Nicira V12 V15 EXPERIMENTER 3;
    NXBRC_MUST_BE_ZERO: Nicira V10 V11 1 515, Nicira V12 V15 EXPERIMENTER 4;
    NXBRC_BAD_REASON: Nicira V10 V11 1 516, Nicira V12 V15 EXPERIMENTER 5;
    NXBRC_FM_BAD_EVENT: Nicira V10 V11 1 520, Nicira V12 V15 EXPERIMENTER 9;
    NXBRC_UNENCODABLE_ERROR: Nicira V10 V11 1 521, Nicira V12 V15 EXPERIMENTER 10;
    OFPBAC_BAD_TYPE: Standard V10 V15 2 0;
    OFPBAC_BAD_LEN: Standard V10 V15 2 1;
    OFPBAC_BAD_VENDOR: Standard V10 V15 2 2;
    OFPBAC_BAD_VENDOR_TYPE: Standard V10 V15 2 3;
    OFPBAC_BAD_OUT_PORT: Standard V10 V15 2 4;
    OFPBAC_BAD_ARGUMENT: Standard V10 V15 2 5;
    OFPBAC_EPERM: Standard V10 V15 2 6;
    OFPBAC_TOO_MANY: Standard V10 V15 2 7;
    OFPBAC_BAD_QUEUE: Standard V10 V15 2 8;
    OFPBAC_BAD_OUT_GROUP: Nicira V10 V10 2 9, Standard V11 V15 2 9;
    OFPBAC_MATCH_INCONSISTENT: Nicira V10 V10 1 522, Standard V11 V15 2 10;
    OFPBAC_UNSUPPORTED_ORDER: Standard V11 V15 2 11;
    OFPBAC_BAD_TAG: Standard V11 V15 2 12;
    OFPBAC_BAD_SET_TYPE: Nicira V10 V11 1 523, Standard V12 V15 2 13;
    OFPBAC_BAD_SET_LEN: Nicira V10 V11 1 524, Standard V12 V15 2 14;
    OFPBAC_BAD_SET_ARGUMENT: Nicira V10 V11 1 525, Standard V12 V15 2 15;
    OFPBAC_BAD_SET_MASK: Onf V13 V14 EXPERIMENTER 4250, Standard V15 V15 2 16;
    OFPBAC_BAD_METER: Standard V15 V15 2 17;
    NXBAC_MUST_BE_ZERO: Nicira V10 V11 2 256, Nicira V12 V15 EXPERIMENTER 11;
    NXBAC_BAD_CONJUNCTION: Nicira V10 V11 2 526, Nicira V12 V15 EXPERIMENTER 15;
    NXBAC_BAD_HEADER_TYPE: Nicira V13 V15 EXPERIMENTER 39;
    NXBAC_UNKNOWN_ED_PROP: Nicira V13 V15 EXPERIMENTER 40;
    NXBAC_BAD_ED_PROP: Nicira V13 V15 EXPERIMENTER 41;
    NXBAC_CT_DATAPATH_SUPPORT: Nicira V10 V11 1 265, Nicira V12 V15 EXPERIMENTER 42;
    OFPBIC_UNKNOWN_INST: Standard V11 V15 3 0;
    OFPBIC_UNSUP_INST: Nicira V10 V10 2 257, Standard V11 V15 3 1;
    OFPBIC_BAD_TABLE_ID: Standard V11 V15 3 2;
    OFPBIC_UNSUP_METADATA: Standard V11 V15 3 3;
    OFPBIC_UNSUP_METADATA_MASK: Standard V11 V15 3 4;
    OFPBIC_BAD_EXPERIMENTER: Standard V11 V15 3 5;
    OFPBIC_BAD_EXP_TYPE: Standard V11 V11 3 5, Standard V12 V15 3 6;
    OFPBIC_BAD_LEN: Standard V12 V15 3 7;
    OFPBIC_EPERM: Standard V12 V15 3 8;
    OFPBIC_DUP_INST: Nicira V11 V11 3 256, Onf V12 V13 EXPERIMENTER 2600, Standard V14 V15 3 9;
    OFPBMC_BAD_TYPE: Standard V11 V15 4 0;
    OFPBMC_BAD_LEN: Standard V11 V15 4 1;
    OFPBMC_BAD_TAG: Standard V11 V15 4 2;
    OFPBMC_BAD_DL_ADDR_MASK: Standard V11 V15 4 3;
    OFPBMC_BAD_NW_ADDR_MASK: Standard V11 V15 4 4;
    OFPBMC_BAD_WILDCARDS: Nicira V10 V10 1 262, Standard V11 V15 4 5;
    OFPBMC_BAD_FIELD: Nicira V10 V10 0 263, Standard V11 V15 4 6;
    OFPBMC_BAD_VALUE: Nicira V10 V10 1 258, Standard V11 V15 4 7;
    OFPBMC_BAD_MASK: Nicira V10 V11 1 259, Standard V12 V15 4 8;
    OFPBMC_BAD_PREREQ: Nicira V10 V11 1 260, Standard V12 V15 4 9;
    OFPBMC_DUP_FIELD: Nicira V10 V11 1 261, Standard V12 V15 4 10;
    OFPBMC_EPERM: Standard V12 V15 4 11;
    NXBMC_CT_DATAPATH_SUPPORT: Nicira V10 V11 1 264, Nicira V12 V15 EXPERIMENTER 43;
    OFPFMFC_UNKNOWN: Standard V11 V15 5 0;
    OFPFMFC_TABLE_FULL: Standard V10 V10 3 0, Standard V11 V15 5 1;
    OFPFMFC_BAD_TABLE_ID: Standard V11 V15 5 2;
    OFPFMFC_OVERLAP: Standard V10 V10 3 1, Standard V11 V15 5 3;
    OFPFMFC_EPERM: Standard V10 V10 3 2, Standard V11 V15 5 4;
    OFPFMFC_BAD_TIMEOUT: Standard V11 V15 5 5;
    OFPFMFC_BAD_EMERG_TIMEOUT: Standard V10 V10 3 3;
    OFPFMFC_BAD_COMMAND: Standard V10 V10 3 4, Standard V11 V15 5 6;
    OFPFMFC_BAD_FLAGS: Nicira V10 V10 3 258, Nicira V11 V11 5 258, Standard V12 V15 5 7;
    OFPFMFC_CANT_SYNC: Standard V14 V15 5 8;
    OFPFMFC_BAD_PRIORITY: Onf V13 V13 EXPERIMENTER 2360, Standard V14 V15 5 9;
    OFPFMFC_IS_SYNC: Standard V14 V15 5 10;
    OFPFMFC_UNSUPPORTED: Standard V10 V10 3 5;
    NXFMFC_HARDWARE: Nicira V10 V11 5 256, Nicira V12 V15 EXPERIMENTER 12;
    NXFMFC_BAD_TABLE_ID: Nicira V10 V11 5 257, Nicira V12 V15 EXPERIMENTER 13;
    NXFMFC_INVALID_TLV_FIELD: Nicira V10 V11 1 536, Nicira V12 V15 EXPERIMENTER 37;
    OFPGMFC_GROUP_EXISTS: Nicira V10 V10 6 0, Standard V11 V15 6 0;
    OFPGMFC_INVALID_GROUP: Nicira V10 V10 6 1, Standard V11 V15 6 1;
    OFPGMFC_WEIGHT_UNSUPPORTED: Nicira V10 V10 6 2, Standard V11 V15 6 2;
    OFPGMFC_OUT_OF_GROUPS: Nicira V10 V10 6 3, Standard V11 V15 6 3;
    OFPGMFC_OUT_OF_BUCKETS: Nicira V10 V10 6 4, Standard V11 V15 6 4;
    OFPGMFC_CHAINING_UNSUPPORTED: Nicira V10 V10 6 5, Standard V11 V15 6 5;
    OFPGMFC_WATCH_UNSUPPORTED: Nicira V10 V10 6 6, Standard V11 V15 6 6;
    OFPGMFC_LOOP: Nicira V10 V10 6 7, Standard V11 V15 6 7;
    OFPGMFC_UNKNOWN_GROUP: Nicira V10 V10 6 8, Standard V11 V15 6 8;
    OFPGMFC_CHAINED_GROUP: Nicira V10 V10 6 9, Standard V12 V15 6 9;
    OFPGMFC_BAD_TYPE: Nicira V10 V10 6 10, Standard V12 V15 6 10;
    OFPGMFC_BAD_COMMAND: Nicira V10 V10 6 11, Standard V12 V15 6 11;
    OFPGMFC_BAD_BUCKET: Nicira V10 V10 6 12, Standard V12 V15 6 12;
    OFPGMFC_BAD_WATCH: Nicira V10 V10 6 13, Standard V12 V15 6 13;
    OFPGMFC_EPERM: Nicira V10 V10 6 14, Standard V12 V15 6 14;
    OFPGMFC_UNKNOWN_BUCKET: Nicira V10 V10 6 15, Standard V15 V15 6 15;
    OFPGMFC_BUCKET_EXISTS: Nicira V10 V10 6 16, Standard V15 V15 6 16;
    OFPPMFC_BAD_PORT: Standard V10 V10 4 0, Standard V11 V15 7 0;
    OFPPMFC_BAD_HW_ADDR: Standard V10 V10 4 1, Standard V11 V15 7 1;
    OFPPMFC_BAD_CONFIG: Standard V11 V15 7 2;
    OFPPMFC_BAD_ADVERTISE: Standard V11 V15 7 3;
    OFPPMFC_EPERM: Standard V12 V15 7 4;
    OFPTMFC_BAD_TABLE: Standard V11 V15 8 0;
    OFPTMFC_BAD_CONFIG: Standard V11 V15 8 1;
    OFPTMFC_EPERM: Standard V12 V15 8 2;
    OFPQOFC_BAD_PORT: Standard V10 V10 5 0, Standard V11 V15 9 0;
    OFPQOFC_BAD_QUEUE: Standard V10 V10 5 1, Standard V11 V15 9 1;
    OFPQOFC_EPERM: Standard V10 V10 5 2, Standard V11 V15 9 2;
    NXQOFC_QUEUE_ERROR: Nicira V14 V15 EXPERIMENTER 23;
    OFPSCFC_BAD_FLAGS: Standard V11 V15 10 0;
    OFPSCFC_BAD_LEN: Standard V11 V15 10 1;
    OFPSCFC_EPERM: Standard V12 V15 10 2;
    OFPRRFC_STALE: Standard V12 V15 11 0;
    OFPRRFC_UNSUP: Standard V12 V15 11 1;
    OFPRRFC_BAD_ROLE: Nicira V10 V11 1 513, Standard V12 V15 11 2;
    OFPRRFC_ID_UNSUP: Standard V15 V15 11 3;
    OFPRRFC_ID_IN_USE: Standard V15 V15 11 4;
    OFPMMFC_UNKNOWN: Standard V13 V15 12 0;
    OFPMMFC_METER_EXISTS: Standard V13 V15 12 1;
    OFPMMFC_INVALID_METER: Standard V13 V15 12 2;
    OFPMMFC_UNKNOWN_METER: Standard V13 V15 12 3;
    OFPMMFC_BAD_COMMAND: Standard V13 V15 12 4;
    OFPMMFC_BAD_FLAGS: Standard V13 V15 12 5;
    OFPMMFC_BAD_RATE: Standard V13 V15 12 6;
    OFPMMFC_BAD_BURST: Standard V13 V15 12 7;
    OFPMMFC_BAD_BAND: Standard V13 V15 12 8;
    OFPMMFC_BAD_BAND_VALUE: Standard V13 V15 12 9;
    OFPMMFC_OUT_OF_METERS: Standard V13 V15 12 10;
    OFPMMFC_OUT_OF_BANDS: Standard V13 V15 12 11;
    OFPTFFC_BAD_TABLE: Standard V13 V15 13 0;
    OFPTFFC_BAD_METADATA: Standard V13 V15 13 1;
    OFPTFFC_EPERM: Standard V13 V15 13 5;
    OFPTFFC_BAD_CAPA: Standard V15 V15 13 6;
    OFPTFFC_BAD_MAX_ENT: Standard V15 V15 13 7;
    OFPTFFC_BAD_FEATURES: Standard V15 V15 13 8;
    OFPTFFC_BAD_COMMAND: Standard V15 V15 13 9;
    OFPTFFC_TOO_MANY: Standard V15 V15 13 10;
    NXTFFC_DUP_TABLE: Nicira V13 V15 EXPERIMENTER 44;
    OFPBPC_BAD_TYPE:
        Nicira V10 V11 13 2,
        Nicira V12 V12 EXPERIMENTER 25,
        Standard V13 V13 13 2,
        Standard V14 V15 14 0;
    OFPBPC_BAD_LEN:
        Nicira V10 V11 13 3,
        Nicira V12 V12 EXPERIMENTER 26,
        Standard V13 V13 13 3,
        Standard V14 V15 14 1;
    OFPBPC_BAD_VALUE:
        Nicira V10 V11 13 4,
        Nicira V12 V12 EXPERIMENTER 27,
        Standard V13 V13 13 4,
        Standard V14 V15 14 2;
    OFPBPC_TOO_MANY:
        Nicira V10 V11 14 3,
        Nicira V12 V12 EXPERIMENTER 28,
        Onf V13 V13 EXPERIMENTER 4443,
        Standard V14 V15 14 3;
    OFPBPC_DUP_TYPE:
        Nicira V10 V11 14 4,
        Nicira V12 V12 EXPERIMENTER 29,
        Onf V13 V13 EXPERIMENTER 4444,
        Standard V14 V15 14 4;
    OFPBPC_BAD_EXPERIMENTER:
        Nicira V10 V11 14 5,
        Nicira V12 V12 EXPERIMENTER 30,
        Onf V13 V13 EXPERIMENTER 4445,
        Standard V14 V15 14 5;
    OFPBPC_BAD_EXP_TYPE:
        Nicira V10 V11 14 6,
        Nicira V12 V12 EXPERIMENTER 31,
        Onf V13 V13 EXPERIMENTER 4446,
        Standard V14 V15 14 6;
    OFPBPC_BAD_EXP_VALUE:
        Nicira V10 V11 14 7,
        Nicira V12 V12 EXPERIMENTER 32,
        Onf V13 V13 EXPERIMENTER 4447,
        Standard V14 V15 14 7;
    OFPBPC_EPERM:
        Nicira V10 V11 14 8,
        Nicira V12 V12 EXPERIMENTER 33,
        Onf V13 V13 EXPERIMENTER 4448,
        Standard V14 V15 14 8;
    OFPACFC_INVALID: Onf V13 V13 EXPERIMENTER 2370, Standard V14 V15 15 0;
    OFPACFC_UNSUPPORTED: Onf V13 V13 EXPERIMENTER 2371, Standard V14 V15 15 1;
    OFPACFC_EPERM: Onf V13 V13 EXPERIMENTER 2372, Standard V14 V15 15 2;
    OFPBFC_UNKNOWN: Onf V13 V13 EXPERIMENTER 2300, Standard V14 V15 17 0;
    OFPBFC_EPERM: Onf V13 V13 EXPERIMENTER 2301, Standard V14 V15 17 1;
    OFPBFC_BAD_ID: Onf V13 V13 EXPERIMENTER 2302, Standard V14 V15 17 2;
    OFPBFC_BUNDLE_EXIST: Onf V13 V13 EXPERIMENTER 2303, Standard V14 V15 17 3;
    OFPBFC_BUNDLE_CLOSED: Onf V13 V13 EXPERIMENTER 2304, Standard V14 V15 17 4;
    OFPBFC_OUT_OF_BUNDLES: Onf V13 V13 EXPERIMENTER 2305, Standard V14 V15 17 5;
    OFPBFC_BAD_TYPE: Onf V13 V13 EXPERIMENTER 2306, Standard V14 V15 17 6;
    OFPBFC_BAD_FLAGS: Onf V13 V13 EXPERIMENTER 2307, Standard V14 V15 17 7;
    OFPBFC_MSG_BAD_LEN: Onf V13 V13 EXPERIMENTER 2308, Standard V14 V15 17 8;
    OFPBFC_MSG_BAD_XID: Onf V13 V13 EXPERIMENTER 2309, Standard V14 V15 17 9;
    OFPBFC_MSG_UNSUP: Onf V13 V13 EXPERIMENTER 2310, Standard V14 V15 17 10;
    OFPBFC_MSG_CONFLICT: Onf V13 V13 EXPERIMENTER 2311, Standard V14 V15 17 11;
    OFPBFC_MSG_TOO_MANY: Onf V13 V13 EXPERIMENTER 2312, Standard V14 V15 17 12;
    OFPBFC_MSG_FAILED: Onf V13 V13 EXPERIMENTER 2313, Standard V14 V15 17 13;
    OFPBFC_TIMEOUT: Onf V13 V13 EXPERIMENTER 2314, Standard V14 V15 17 14;
    OFPBFC_BUNDLE_IN_PROGRESS: Onf V13 V13 EXPERIMENTER 2315, Standard V14 V15 17 15;
    OFPBFC_SCHED_NOT_SUPPORTED: Standard V15 V15 17 16;
    OFPBFC_SCHED_FUTURE: Standard V15 V15 17 17;
    OFPBFC_SCHED_PAST: Standard V15 V15 17 18;
    OFPBFC_BAD_VERSION: Nicira V14 V15 EXPERIMENTER 22;
    OFPMOFC_UNKNOWN: Standard V14 V15 16 0;
    OFPMOFC_MONITOR_EXISTS:
        Nicira V10 V11 1 517,
        Nicira V12 V13 EXPERIMENTER 6,
        Standard V14 V15 16 1;
    OFPMOFC_INVALID_MONITOR: Standard V14 V15 16 2;
    OFPMOFC_UNKNOWN_MONITOR:
        Nicira V10 V11 1 519,
        Nicira V12 V13 EXPERIMENTER 8,
        Standard V14 V15 16 3;
    OFPMOFC_BAD_COMMAND: Standard V14 V15 16 4;
    OFPMOFC_BAD_FLAGS: Nicira V10 V11 1 518, Nicira V12 V13 EXPERIMENTER 7, Standard V14 V15 16 5;
    OFPMOFC_BAD_TABLE_ID: Standard V14 V15 16 6;
    OFPMOFC_BAD_OUT: Standard V14 V15 16 7;
    NXTTMFC_BAD_COMMAND: Nicira V10 V11 1 527, Nicira V12 V15 EXPERIMENTER 16;
    NXTTMFC_BAD_OPT_LEN: Nicira V10 V11 1 528, Nicira V12 V15 EXPERIMENTER 17;
    NXTTMFC_BAD_FIELD_IDX: Nicira V10 V11 1 529, Nicira V12 V15 EXPERIMENTER 18;
    NXTTMFC_TABLE_FULL: Nicira V10 V11 1 530, Nicira V12 V15 EXPERIMENTER 19;
    NXTTMFC_ALREADY_MAPPED: Nicira V10 V11 1 531, Nicira V12 V15 EXPERIMENTER 20;
    NXTTMFC_DUP_ENTRY: Nicira V10 V11 1 532, Nicira V12 V15 EXPERIMENTER 21;
    NXTTMFC_INVALID_TLV_DEL: Nicira V10 V11 1 537, Nicira V12 V15 EXPERIMENTER 38;
    NXR_NOT_SUPPORTED: Nicira V10 V11 1 533, Nicira V12 V15 EXPERIMENTER 34;
    NXR_STALE: Nicira V10 V11 1 534, Nicira V12 V15 EXPERIMENTER 35;
    NXST_NOT_CONFIGURED: Nicira V10 V11 1 535, Nicira V12 V15 EXPERIMENTER 36;
}
