//! The forms in which actions travel, with their numbers in each version.
//!
//! A row has the form, whose number it is, the first and the last version, and the number
//! (OpenFlow's specifications; Open vSwitch, `ovs-actions(7)`).

use crate::version::Version::{self, V10, V11, V12, V13, V14, V15};

/// Whose number a form has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Standard,
    Nicira,
    Onf,
}

use Owner::{Nicira, Onf, Standard};

macro_rules! forms {
    ($($form:ident: $($owner:ident $first:ident $last:ident $number:literal),+;)*) => {
        /// A form of an action.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Form { $($form),* }

        /// All numbers of all forms.
        static ROWS: &[(Form, Owner, Version, Version, u16)] = &[
            $($((Form::$form, $owner, $first, $last, $number)),+),*
        ];
    };
}

forms! {
    Output16: Standard V10 V10 0;
    Output: Standard V11 V15 0;
    SetVlanVid: Standard V10 V10 1, Standard V11 V15 1;
    SetVlanPcp: Standard V10 V10 2, Standard V11 V15 2;
    PopVlan: Standard V10 V10 3, Standard V11 V15 18;
    PushVlan: Standard V11 V15 17;
    SetDlSrc: Standard V10 V10 4, Standard V11 V15 3;
    SetDlDst: Standard V10 V10 5, Standard V11 V15 4;
    SetNwSrc: Standard V10 V10 6, Standard V11 V15 5;
    SetNwDst: Standard V10 V10 7, Standard V11 V15 6;
    SetNwTos: Standard V10 V10 8, Standard V11 V15 7;
    SetNwEcn: Standard V11 V15 8;
    SetTpSrc: Standard V10 V15 9;
    SetTpDst: Standard V10 V15 10;
    Enqueue: Standard V10 V10 11;
    SetMplsLabel: Nicira V10 V10 30, Standard V11 V15 13;
    SetMplsTc: Nicira V10 V10 31, Standard V11 V15 14;
    SetMplsTtl: Nicira V10 V10 25, Standard V11 V15 15;
    DecMplsTtl: Nicira V10 V10 26, Standard V11 V15 16;
    PushMpls: Nicira V10 V10 23, Standard V11 V15 19;
    PopMpls: Nicira V10 V10 24, Standard V11 V15 20;
    SetQueue: Nicira V10 V10 4, Standard V11 V15 21;
    Group: Nicira V10 V10 40, Standard V11 V15 22;
    SetNwTtl: Standard V11 V15 23;
    DecNwTtl: Nicira V10 V10 18, Standard V11 V15 24;
    DecTtlIds: Nicira V10 V15 21;
    SetField: Standard V12 V15 25;
    RegLoad: Nicira V10 V14 7;
    RegLoad2: Nicira V10 V14 33;
    CopyField: Standard V15 V15 28;
    OnfCopyField: Onf V13 V14 3200;
    RegMove: Nicira V10 V14 6;
    Meter: Standard V15 V15 29;
    Resubmit: Nicira V10 V15 1;
    ResubmitTable: Nicira V10 V15 14;
    ResubmitTableCt: Nicira V10 V15 44;
    SetTunnel: Nicira V10 V15 2;
    SetTunnel64: Nicira V10 V15 9;
    PopQueue: Nicira V10 V15 5;
    Note: Nicira V10 V15 8;
    Multipath: Nicira V10 V15 10;
    Bundle: Nicira V10 V15 12;
    BundleLoad: Nicira V10 V15 13;
    OutputReg: Nicira V10 V15 15;
    OutputReg2: Nicira V10 V15 32;
    Learn: Nicira V10 V15 16;
    Learn2: Nicira V10 V15 45;
    Exit: Nicira V10 V15 17;
    FinTimeout: Nicira V10 V15 19;
    Controller: Nicira V10 V15 20;
    Controller2: Nicira V10 V15 37;
    WriteMetadata: Nicira V10 V15 22;
    StackPush: Nicira V10 V15 27;
    StackPop: Nicira V10 V15 28;
    Sample: Nicira V10 V15 29;
    Sample2: Nicira V10 V15 38;
    Sample3: Nicira V10 V15 41;
    Sample4: Nicira V10 V15 51;
    Conjunction: Nicira V10 V15 34;
    Ct: Nicira V10 V15 35;
    Nat: Nicira V10 V15 36;
    OutputTruncated: Nicira V10 V15 39;
    Clone: Nicira V10 V15 42;
    CtClear: Nicira V10 V15 43;
    Encap: Nicira V13 V15 46;
    Decap: Nicira V13 V15 47;
    DecNshTtl: Nicira V13 V15 48;
    CheckPacketLarger: Nicira V10 V15 49;
    DeleteField: Nicira V10 V15 50;
    DebugSlow: Nicira V10 V15 254;
    DebugRecirc: Nicira V10 V15 255;
}

/// The form with a number.
pub(super) fn form_of(version: Version, owner: Owner, number: u16) -> Option<Form> {
    let is_it = |row: &&(Form, Owner, Version, Version, u16)| {
        row.1 == owner && row.2 <= version && version <= row.3 && row.4 == number
    };
    ROWS.iter().find(is_it).map(|row| row.0)
}

/// The number of a form; `None` if the version lacks it.
pub(super) fn number_of(version: Version, form: Form) -> Option<(Owner, u16)> {
    let mut rows = ROWS.iter();
    let row = rows.find(|row| row.0 == form && row.2 <= version && version <= row.3)?;
    Some((row.1, row.4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_one_form_in_a_version() {
        for version in Version::ALL {
            for row in ROWS
                .iter()
                .filter(|row| row.2 <= version && version <= row.3)
            {
                assert_eq!(form_of(version, row.1, row.4), Some(row.0));
                assert_eq!(number_of(version, row.0), Some((row.1, row.4)));
            }
        }
    }
}
