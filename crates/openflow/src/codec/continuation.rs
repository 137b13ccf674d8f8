//! The continuation of a paused packet, as Open vSwitch writes it (`enum
//! nx_continuation_prop_type` in `ofp-packet.c`).
//!
//! Open vSwitch writes actions in the forms of the connection's version, and loses those that
//! the version lacks; it writes `write_actions` and `clear_actions` as actions, which it then
//! cannot read. Both are written here as properties of our own, which `ovs-ofctl` passes over:
//!
//! 1. Decoding gives back the encoded continuation, in every version.

use bytes::Bytes;

use crate::action::{Action, Controller, SetForm, decode_actions, encode_actions};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::continuation::{ContinuationList, PacketContinuation};
use crate::property;
use crate::version::Version;
use crate::wire::{Reader, Writer};

const BRIDGE: u16 = 0x8000;
const STACK: u16 = 0x8001;
const MIRRORS: u16 = 0x8002;
const CONNTRACKED: u16 = 0x8003;
const TABLE: u16 = 0x8004;
const COOKIE: u16 = 0x8005;
const ACTIONS: u16 = 0x8006;
const ACTION_SET: u16 = 0x8007;
const DATAPATH_PORT: u16 = 0x8008;

/// Our own: the last list empties the action set.
const CLEAR: u16 = 0xf000;
/// Our own: the last list adds these actions to the action set.
const WRITE: u16 = 0xf001;
/// Our own: actions of the last list, after the two above.
const THEN: u16 = 0xf002;
/// Our own: more actions for `ACTIONS`, `ACTION_SET`, `WRITE` or `THEN`, whichever came last,
/// in the forms of another version.
const MORE: u16 = 0xf003;
/// Our own: the walk ends without an action set.
const WITHOUT_SET: u16 = 0xf004;
/// Our own: the last action of the last list, a resubmit, is a `goto_table`.
const GOTO: u16 = 0xf005;

/// The versions whose forms are tried where the connection's cannot say an action: the newest,
/// the one that sets the id of a VLAN tag only if there is one, the one that adds the tag.
const OTHERS: [Version; 3] = [Version::V15, Version::V11, Version::V10];

/// Most bytes of a saved value (`union mf_subvalue`).
const MAX_SAVED_BYTES: usize = 128;

impl PacketContinuation {
    /// Writes the continuation for a connection of this version.
    pub fn encode(&self, version: Version) -> Bytes {
        let writer = &mut Writer::new();
        if self.bridge != [0; 16] {
            property::encode(BRIDGE, writer, |writer| writer.put(&self.bridge));
        }
        for saved in &self.stack {
            property::encode(STACK, writer, |writer| writer.put(saved));
        }
        let (mut table, mut cookie) = (0, 0);
        for list in &self.lists {
            if list.table != table {
                property::encode(TABLE, writer, |writer| writer.u8(list.table));
                table = list.table;
            }
            if list.cookie != cookie {
                property::encode(COOKIE, writer, |writer| {
                    writer.zeros(4);
                    writer.u64(list.cookie);
                });
                cookie = list.cookie;
            }
            put_list(version, list, writer);
            if list.ends_with_goto {
                property::encode(GOTO, writer, |_| {});
            }
        }
        if !self.action_set.is_empty() {
            put_actions(version, ACTION_SET, &self.action_set, writer);
        }
        if self.ends_without_set {
            property::encode(WITHOUT_SET, writer, |_| {});
        }
        Bytes::copy_from_slice(writer.as_bytes())
    }

    /// Reads a continuation that came back in a message of this version.
    ///
    /// # Errors
    /// The standard's error for a bad property or action.
    pub fn decode(version: Version, bytes: &[u8]) -> Result<PacketContinuation, Refusal> {
        let mut body = Reader::new(bytes, ErrorCode::OFPBPC_BAD_LEN);
        let mut continuation = PacketContinuation::default();
        let (mut table, mut cookie, mut latest) = (0, 0, None);
        while !body.is_empty() {
            let (kind, mut value) = property::decode(&mut body)?;
            let place = match kind {
                ACTIONS | ACTION_SET | WRITE | THEN => Some(kind),
                MORE => latest,
                _ => None,
            };
            if let Some(place) = place {
                let actions = actions(version, kind, value)?;
                if kind == ACTIONS {
                    continuation.lists.push(ContinuationList {
                        table,
                        cookie,
                        ..ContinuationList::default()
                    });
                }
                continuation.place(place)?.extend(actions);
                latest = Some(place);
                continue;
            }
            match kind {
                BRIDGE => continuation.bridge = whole(value)?,
                STACK => continuation.stack.push(saved(value)?),
                // There are no mirrors and no tracked connections to go on with.
                MIRRORS | DATAPATH_PORT => drop(value.u32()?),
                CONNTRACKED => {}
                TABLE => table = value.u8()?,
                COOKIE => {
                    value.skip(4)?;
                    cookie = value.u64()?;
                }
                CLEAR => continuation.last()?.clear = true,
                GOTO => continuation.last()?.ends_with_goto = true,
                WITHOUT_SET => continuation.ends_without_set = true,
                other => {
                    let what = format!("property {other:#x} of a continuation");
                    return Err(refuse(ErrorCode::OFPBPC_BAD_TYPE, what));
                }
            }
        }
        Ok(continuation)
    }

    /// The actions that a property is about.
    fn place(&mut self, kind: u16) -> Result<&mut Vec<Action>, Refusal> {
        Ok(match kind {
            ACTION_SET => &mut self.action_set,
            WRITE => self.last()?.write.get_or_insert_default(),
            THEN => &mut self.last()?.then,
            _ => &mut self.last()?.actions,
        })
    }

    fn last(&mut self) -> Result<&mut ContinuationList, Refusal> {
        let what = "a continuation says how a list goes on before it begins";
        let missing = || refuse(ErrorCode::OFPBPC_BAD_VALUE, what);
        self.lists.last_mut().ok_or_else(missing)
    }
}

fn put_list(version: Version, list: &ContinuationList, writer: &mut Writer) {
    if !list.clear && list.write.is_none() {
        let all = [&list.actions[..], &list.then].concat();
        return put_actions(version, ACTIONS, &all, writer);
    }
    put_actions(version, ACTIONS, &list.actions, writer);
    if list.clear {
        property::encode(CLEAR, writer, |_| {});
    }
    if let Some(write) = &list.write {
        put_actions(version, WRITE, write, writer);
    }
    if !list.then.is_empty() {
        put_actions(version, THEN, &list.then, writer);
    }
}

/// Writes a property with actions, and further ones for actions that the version cannot say
/// (invariant 1).
fn put_actions(version: Version, kind: u16, actions: &[Action], writer: &mut Writer) {
    if says(version, actions) {
        return put_property(version, version, kind, actions, writer);
    }
    put_property(version, version, kind, &[], writer);
    let form_of = |action: &Action| {
        let mut forms = std::iter::once(version).chain(OTHERS);
        let form = forms.find(|form| says(*form, std::slice::from_ref(action)));
        form.unwrap_or(OTHERS[0])
    };
    let mut rest = actions;
    while let Some(first) = rest.first() {
        let form = form_of(first);
        let count = rest.iter().take_while(|action| form_of(action) == form);
        let (now, later) = rest.split_at(count.count());
        // Where neighbours change what a form means, each stands alone.
        let size = if says(form, now) { now.len() } else { 1 };
        for part in now.chunks(size) {
            put_property(version, form, MORE, part, writer);
        }
        rest = later;
    }
}

/// Whether a version's forms of these actions mean what the actions mean.
fn says(version: Version, actions: &[Action]) -> bool {
    let scratch = &mut Writer::new();
    encode_actions(actions, version, scratch);
    let reader = Reader::new(scratch.as_bytes(), ErrorCode::OFPBAC_BAD_LEN);
    decode_actions(version, reader).is_ok_and(|read| plain(&read) == plain(actions))
}

/// The actions without the forms in which they came.
fn plain(actions: &[Action]) -> Vec<Action> {
    let plain = |action: &Action| {
        let mut action = action.clone();
        match &mut action {
            Action::SetField { form, .. } => *form = SetForm::SetField,
            Action::Move { is_onf, .. } => *is_onf = false,
            Action::Controller(Controller { userdata, .. }) => {
                *userdata = Some(userdata.take().unwrap_or_default());
            }
            Action::Clone(nested) => *nested = self::plain(nested),
            _ => {}
        }
        action
    };
    actions.iter().map(plain).collect()
}

/// Writes one property. Its actions stand behind four bytes of padding; in our own, the first
/// of them is the version of the forms.
fn put_property(
    version: Version,
    form: Version,
    kind: u16,
    actions: &[Action],
    writer: &mut Writer,
) {
    debug_assert!(kind == MORE || form == version);
    property::encode(kind, writer, |writer| {
        writer.u8(if kind == MORE { form.number() } else { 0 });
        writer.zeros(3);
        encode_actions(actions, form, writer);
    });
}

fn actions(version: Version, kind: u16, mut value: Reader<'_>) -> Result<Vec<Action>, Refusal> {
    let number = value.u8()?;
    value.skip(3)?;
    let form = match kind {
        MORE => Version::from_number(number).ok_or_else(|| {
            let what = format!("actions in the forms of version {number:#x}");
            refuse(ErrorCode::OFPBPC_BAD_VALUE, what)
        })?,
        _ => version,
    };
    decode_actions(form, value.with_code(ErrorCode::OFPBAC_BAD_LEN))
}

fn whole<const N: usize>(mut value: Reader<'_>) -> Result<[u8; N], Refusal> {
    let bytes = value.array()?;
    match value.is_empty() {
        true => Ok(bytes),
        false => Err(value.bad_length(format!("a property has {N} bytes"))),
    }
}

fn saved(mut value: Reader<'_>) -> Result<Bytes, Refusal> {
    if value.len() > MAX_SAVED_BYTES {
        let what = format!("a saved value has at most {MAX_SAVED_BYTES} bytes");
        return Err(value.bad_length(what));
    }
    Ok(Bytes::copy_from_slice(value.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Subfield;
    use crate::field::{FieldId, Value};
    use crate::port_number::PortNumber;

    fn output(port: u32) -> Action {
        Action::Output {
            port: PortNumber(port),
            max_length: 0,
        }
    }

    fn set(field: FieldId, value: u128) -> Action {
        Action::SetField {
            field,
            value: Value::from_number(value, field.bytes()),
            mask: None,
            form: SetForm::SetField,
        }
    }

    fn sample() -> PacketContinuation {
        let register = FieldId::named("reg3").expect("it exists");
        PacketContinuation {
            bridge: [7; 16],
            stack: vec![Bytes::from_static(&[0, 5]), Bytes::from_static(&[9])],
            lists: vec![
                ContinuationList {
                    table: 2,
                    cookie: 0x33,
                    actions: vec![set(register, 5), output(4)],
                    ends_with_goto: true,
                    ..ContinuationList::default()
                },
                ContinuationList {
                    table: 2,
                    cookie: u64::MAX,
                    clear: true,
                    write: Some(vec![output(3)]),
                    then: vec![set(FieldId::METADATA, 5)],
                    ..ContinuationList::default()
                },
                ContinuationList {
                    cookie: u64::MAX,
                    actions: vec![
                        Action::PushVlan(0x8100),
                        Action::StackPush(Subfield::new(register, 0, 12)),
                        Action::SetVlanVid {
                            id: 5,
                            adds_tag: false,
                        },
                    ],
                    ..ContinuationList::default()
                },
            ],
            action_set: vec![Action::DecTtl(None), output(1)],
            ends_without_set: true,
        }
    }

    #[test]
    fn what_is_written_is_read_in_every_version() {
        for version in Version::ALL {
            let sample = sample();
            let bytes = sample.encode(version);
            let read = PacketContinuation::decode(version, &bytes).expect("it was written here");
            assert_eq!(read.bridge, sample.bridge, "{version}");
            assert_eq!(read.stack, sample.stack, "{version}");
            assert!(read.ends_without_set, "{version}");
            assert_eq!(plain(&read.action_set), plain(&sample.action_set));
            assert_eq!(read.lists.len(), sample.lists.len(), "{version}");
            for (read, written) in read.lists.iter().zip(&sample.lists) {
                assert_eq!((read.table, read.cookie), (written.table, written.cookie));
                assert_eq!(plain(&read.actions), plain(&written.actions), "{version}");
                assert_eq!(read.clear, written.clear);
                assert_eq!(read.ends_with_goto, written.ends_with_goto);
                assert_eq!(read.write, written.write, "{version}");
                assert_eq!(plain(&read.then), plain(&written.then));
            }
        }
    }

    fn bytes(text: &str) -> Vec<u8> {
        let text: String = text.split_whitespace().collect();
        let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
        (0..text.len()).step_by(2).map(byte).collect()
    }

    /// The bytes that Open vSwitch 3.1 sent for these rules, without the port of its datapath:
    ///
    /// ```text
    /// cookie=0x11,actions=push:NXM_NX_REG3[0..11],write_actions(output:3),goto_table:1
    /// table=1,cookie=0x22,actions=resubmit(,2),2
    /// table=2,cookie=0x33,actions=controller(pause),set_field:9->tun_id,4,write_metadata:5
    /// ```
    #[test]
    fn open_vswitchs_own_is_read_and_written_alike() {
        let bridge = "80000014e53719ffd6432c16b5aff092b79d6a79 00000000 8001000600000000";
        let (cookie_33, cookie_22) = (
            "8004000502000000 8005001000000000 0000000000000033",
            "8004000501000000 8005001000000000 0000000000000022",
        );
        let cases = [
            (
                Version::V13,
                format!(
                    "{bridge} 8006001800000000 0019001080004c080000000000000009
                     {cookie_33} 8006002800000000 00000010000000040000000000000000
                     00190010800004080000000000000005
                     {cookie_22} 8006001800000000 00000010000000020000000000000000
                     8007001800000000 00000010000000030000000000000000"
                ),
            ),
            (
                Version::V10,
                format!(
                    "{bridge} 8006002000000000 ffff0018000023200007003f000120080000000000000009
                     {cookie_33} 8006002800000000 0000000800040000
                     ffff0018000023200007003f800004080000000000000005
                     {cookie_22} 8006001000000000 0000000800020000
                     8007001000000000 0000000800030000"
                ),
            ),
        ];
        for (version, sent) in cases {
            let sent = bytes(&sent);
            let read = PacketContinuation::decode(version, &sent).expect("Open vSwitch wrote it");
            assert_eq!(read.stack, [&[0, 0][..]]);
            let lists = read.lists.iter().map(|list| (list.table, list.cookie));
            assert_eq!(lists.collect::<Vec<_>>(), [(0, 0), (2, 0x33), (1, 0x22)]);
            assert_eq!(read.lists[2].actions, [output(2)]);
            assert_eq!(plain(&read.lists[1].actions)[1], set(FieldId::METADATA, 5));
            assert_eq!(read.action_set, [output(3)]);
            assert_eq!(read.encode(version)[..], sent[..], "{version}");
        }
    }

    #[test]
    fn no_bytes_are_trusted() {
        let cases: [(&[u8], ErrorCode); 7] = [
            (&[0x80, 0x00, 0x00], ErrorCode::OFPBPC_BAD_LEN),
            (
                &[0x80, 0x00, 0x00, 0x08, 1, 2, 3, 4],
                ErrorCode::OFPBPC_BAD_LEN,
            ),
            (
                &[0x80, 0x06, 0x00, 0x05, 0, 0, 0, 0],
                ErrorCode::OFPBPC_BAD_LEN,
            ),
            (
                &[0x80, 0x09, 0x00, 0x04, 0, 0, 0, 0],
                ErrorCode::OFPBPC_BAD_TYPE,
            ),
            (
                &[0x80, 0x04, 0x00, 0x04, 0, 0, 0, 0],
                ErrorCode::OFPBPC_BAD_LEN,
            ),
            (
                &[0xf0, 0x00, 0x00, 0x04, 0, 0, 0, 0],
                ErrorCode::OFPBPC_BAD_VALUE,
            ),
            (
                &[
                    0x80, 0x06, 0x00, 0x10, 0, 0, 0, 0, 0x77, 0x77, 0, 8, 0, 0, 0, 0,
                ],
                ErrorCode::OFPBAC_BAD_TYPE,
            ),
        ];
        for (bytes, code) in cases {
            let refused = PacketContinuation::decode(Version::V13, bytes).expect_err("it is wrong");
            assert_eq!(refused.code, code, "{bytes:02x?}: {refused:?}");
        }
        let long = [&[0x80, 0x01, 0x00, 0x85][..], &[0; 132]].concat();
        assert!(PacketContinuation::decode(Version::V13, &long).is_err());
        // Each byte lost and each bit flipped: an error or another continuation.
        let whole = sample().encode(Version::V13);
        for at in 0..whole.len() {
            let _ = PacketContinuation::decode(Version::V13, &whole[..at]);
            for bit in 0..8 {
                let mut bytes = whole.to_vec();
                bytes[at] ^= 1 << bit;
                let _ = PacketContinuation::decode(Version::V13, &bytes);
            }
        }
    }
}
