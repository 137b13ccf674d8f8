//! The map of options against Open vSwitch's way to do it, and against its errors.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_packet::wire::GeneveOption;

use super::generate::options;
use crate::{
    EncapsulateError, FIELD_MAX_BYTES, OptionMap, OptionMapError, OptionMapping, OptionRefusal,
    OptionValues, TunnelOptions,
};

/// Words of the area where Open vSwitch keeps the values of all fields.
const WORDS: usize = 64;

/// The map as Open vSwitch has it: each field owns words of an area, in as many pieces as it needs.
#[derive(Clone, Default)]
struct SlowMap {
    fields: BTreeMap<u16, (OptionMapping, Vec<usize>)>,
}

impl SlowMap {
    fn is_free(&self, word: usize) -> bool {
        !self.fields.values().any(|(_, words)| words.contains(&word))
    }

    /// The words of the first hole that is long enough, or of the longest hole.
    fn hole(&self, len: usize) -> Vec<usize> {
        let mut best: Vec<usize> = Vec::new();
        let mut hole: Vec<usize> = Vec::new();
        for word in 0..WORDS {
            match self.is_free(word) {
                true => hole.push(word),
                false => hole.clear(),
            }
            if hole.len() > best.len() {
                best.clone_from(&hole);
            }
            if best.len() == len {
                break;
            }
        }
        best
    }

    fn add_one(&mut self, mapping: OptionMapping) -> Result<(), OptionMapError> {
        let OptionMapping { class, kind, .. } = mapping;
        if self.fields.contains_key(&mapping.index) {
            return Err(OptionMapError::AlreadyMapped(mapping.index));
        }
        let mut others = self.fields.values();
        if others.any(|(other, _)| (other.class, other.kind) == (class, kind)) {
            return Err(OptionMapError::Duplicate { class, kind });
        }
        let mut wanted = usize::from(mapping.len_bytes) / 4;
        self.fields.insert(mapping.index, (mapping, Vec::new()));
        while wanted > 0 {
            let hole = self.hole(wanted);
            if hole.is_empty() {
                return Err(OptionMapError::TableFull(mapping.index));
            }
            wanted -= hole.len();
            let field = self.fields.get_mut(&mapping.index).expect("it was added");
            field.1.extend(hole);
        }
        Ok(())
    }

    fn add(&mut self, mappings: &[OptionMapping]) -> Result<(), OptionMapError> {
        let mut changed = self.clone();
        for mapping in mappings {
            changed.add_one(*mapping)?;
        }
        *self = changed;
        Ok(())
    }

    /// The fields that options set, the last of equal ones; `None` if the packet is dropped.
    fn values_of(&self, options: &TunnelOptions) -> Option<BTreeMap<u16, Vec<u8>>> {
        let mut values = BTreeMap::new();
        for option in options.iter() {
            let mut fields = self.fields.values();
            let found = fields
                .find(|(mapping, _)| (mapping.class, mapping.kind) == (option.class, option.kind));
            match found {
                Some((mapping, _)) if usize::from(mapping.len_bytes) != option.data.len() => {
                    return None;
                }
                Some((mapping, _)) => {
                    values.insert(mapping.index, option.data.to_vec());
                }
                None if option.kind >= 128 => return None,
                None => {}
            }
        }
        Some(values)
    }
}

fn mappings() -> impl Strategy<Value = Vec<OptionMapping>> {
    let kind = prop_oneof![0..4u8, 128..130u8];
    let len = prop_oneof![0..8u8, 24..32u8].prop_map(|words| 4 * words);
    let one =
        (0..4u16, kind, len, 0..12u16).prop_map(|(class, kind, len_bytes, index)| OptionMapping {
            class,
            kind,
            len_bytes: len_bytes.min(124),
            index,
        });
    vec(one, 0..4)
}

/// A request to change a map.
#[derive(Clone, Debug)]
enum Request {
    Add(Vec<OptionMapping>),
    Delete(Vec<u16>, u16),
    Clear(u16),
}

fn requests() -> impl Strategy<Value = Request> {
    let delete = (vec(0..12u16, 0..3), 0..24u16);
    prop_oneof![
        8 => mappings().prop_map(Request::Add),
        3 => delete.prop_map(|(indexes, used)| Request::Delete(indexes, used)),
        1 => (0..48u16).prop_map(Request::Clear),
    ]
}

fn delete(
    map: &mut OptionMap,
    slow: &mut SlowMap,
    indexes: &[u16],
    used: u16,
) -> Result<(), TestCaseError> {
    let before = map.clone();
    let told = map.delete(indexes, |index| index == used);
    if indexes.contains(&used) && slow.fields.contains_key(&used) {
        prop_assert_eq!(told, Err(OptionMapError::InUse(used)));
        prop_assert_eq!(&*map, &before);
        return Ok(());
    }
    prop_assert_eq!(told, Ok(()));
    slow.fields.retain(|index, _| !indexes.contains(index));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn maps_change_as_open_vswitchs(
        requests in vec(requests(), 1..12),
        options in options(),
    ) {
        let (mut map, mut slow) = (OptionMap::default(), SlowMap::default());
        for request in requests {
            let before = map.clone();
            match request {
                Request::Add(mappings) => {
                    let told = map.add(&mappings);
                    prop_assert_eq!(told, slow.add(&mappings));
                    if told.is_err() {
                        prop_assert_eq!(&map, &before);
                    }
                }
                Request::Delete(indexes, used) => delete(&mut map, &mut slow, &indexes, used)?,
                Request::Clear(used) => {
                    let told = map.clear(|index| index == used);
                    match slow.fields.contains_key(&used) {
                        true => {
                            prop_assert_eq!(told, Err(OptionMapError::InUse(used)));
                            prop_assert_eq!(&map, &before);
                        }
                        false => slow.fields.clear(),
                    }
                }
            }
            let ours: Vec<OptionMapping> = map.mappings().collect();
            let theirs: Vec<OptionMapping> =
                slow.fields.values().map(|(mapping, _)| *mapping).collect();
            prop_assert_eq!(ours, theirs);
        }
        compare_values(&map, &slow, &options)?;
    }

    #[test]
    fn values_are_kept_apart(
        sets in vec((0..6u16, vec(any::<u8>(), 0..130), any::<bool>()), 0..20),
    ) {
        let mut map = OptionMap::default();
        let lens = [4u8, 0, 8, 124, 12, 104];
        for (index, len_bytes) in lens.into_iter().enumerate() {
            let index = index as u16;
            let mapping = OptionMapping { class: index, kind: 1, len_bytes, index };
            prop_assert_eq!(map.add(&[mapping]), Ok(()));
        }
        let mut values = OptionValues::default();
        let mut slow: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        for (index, number, is_deleted) in sets {
            if is_deleted {
                values.delete(index);
                slow.remove(&index);
            } else {
                prop_assert!(map.set(&mut values, index, &number));
                let mut padded = vec![0; 130];
                padded.extend(&number);
                let len = usize::from(lens[usize::from(index)]);
                slow.insert(index, padded[padded.len() - len..].to_vec());
            }
            for index in 0..8 {
                let expected = slow.get(&index).map(|value| &value[..]);
                prop_assert_eq!(values.get(index), expected);
                let mut number = vec![0; FIELD_MAX_BYTES];
                number.extend(expected.unwrap_or_default());
                let number = &number[number.len() - FIELD_MAX_BYTES..];
                prop_assert_eq!(&values.number(index)[..], number);
            }
            let bits = slow.keys().map(|index| 1 << index).sum::<u64>();
            prop_assert_eq!(values.present(), bits);
        }
        match map.options_of(&values) {
            Ok(options) => prop_assert_eq!(map.values_of(&options), Ok(values)),
            Err(error) => {
                let len: usize = slow.values().map(|value| value.len() + 4).sum();
                prop_assert_eq!(error, EncapsulateError::OptionsTooLong);
                prop_assert!(len > 252);
            }
        }
    }
}

fn compare_values(
    map: &OptionMap,
    slow: &SlowMap,
    options: &TunnelOptions,
) -> Result<(), TestCaseError> {
    let (ours, theirs) = (map.values_of(options).ok(), slow.values_of(options));
    prop_assert_eq!(ours.is_some(), theirs.is_some());
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return Ok(());
    };
    for index in 0..64 {
        let expected = theirs.get(&index).map(|value| &value[..]);
        prop_assert_eq!(ours.get(index), expected);
    }
    let written = map.options_of(&ours).expect("fewer than were read");
    let mut expected = Vec::new();
    for (index, data) in &theirs {
        let (mapping, _) = &slow.fields[index];
        expected.extend(mapping.class.to_be_bytes());
        expected.extend([mapping.kind, data.len() as u8 / 4]);
        expected.extend(data);
    }
    prop_assert_eq!(written.bytes(), &expected[..]);
    Ok(())
}

fn mapping(class: u16, kind: u8, len_bytes: u8, index: u16) -> OptionMapping {
    OptionMapping {
        class,
        kind,
        len_bytes,
        index,
    }
}

/// The errors of Open vSwitch's test "ofproto - TLV map" and of its decoder, in their order.
#[test]
fn requests_are_refused_by_name() {
    let mut map = OptionMap::default();
    let cases = [
        (vec![mapping(1, 1, 6, 0)], OptionMapError::BadLength(6)),
        (vec![mapping(1, 1, 128, 0)], OptionMapError::BadLength(128)),
        (vec![mapping(1, 1, 4, 64)], OptionMapError::BadIndex(64)),
        // What cannot be read is refused before anything else.
        (
            vec![
                mapping(1, 1, 4, 0),
                mapping(1, 1, 4, 0),
                mapping(2, 2, 3, 1),
            ],
            OptionMapError::BadLength(3),
        ),
        (
            vec![mapping(1, 1, 4, 0), mapping(2, 2, 4, 0)],
            OptionMapError::AlreadyMapped(0),
        ),
        (
            vec![mapping(1, 1, 4, 0), mapping(1, 1, 8, 1)],
            OptionMapError::Duplicate { class: 1, kind: 1 },
        ),
        (
            vec![
                mapping(1, 1, 124, 0),
                mapping(1, 2, 124, 1),
                mapping(1, 3, 12, 2),
            ],
            OptionMapError::TableFull(2),
        ),
    ];
    for (mappings, error) in cases {
        assert_eq!(map.add(&mappings), Err(error));
        assert_eq!(map.mappings().count(), 0);
    }
    assert_eq!(
        map.delete(&[0, 64], |_| false),
        Err(OptionMapError::BadIndex(64))
    );
    assert_eq!(
        map.delete(&[5], |_| true),
        Ok(()),
        "what is not mapped is not used"
    );
    let most = [
        mapping(1, 1, 124, 0),
        mapping(1, 2, 124, 63),
        mapping(1, 3, 8, 7),
    ];
    assert_eq!(map.add(&most), Ok(()));
    assert_eq!(map.used_bytes(), 256);
    assert_eq!(map.mapping(63), Some(most[1]));
    assert_eq!(map.mapping(64), None);
}

#[test]
fn a_packet_with_unknown_critical_options_is_refused() {
    let mut map = OptionMap::default();
    map.add(&[mapping(1, 0x81, 4, 3)]).expect("a free field");
    let options = |class, kind, data| {
        let mut options = TunnelOptions::default();
        options
            .push(&GeneveOption { class, kind, data })
            .expect("room for an option");
        options
    };
    let (four, eight): (&[u8], &[u8]) = (&[0; 4], &[0; 8]);
    let known = map
        .values_of(&options(1, 0x81, four))
        .expect("a mapped option");
    assert_eq!(known.present(), 1 << 3);
    let (class, kind) = (1, 0x82);
    assert_eq!(
        map.values_of(&options(class, kind, four)),
        Err(OptionRefusal::UnknownCritical { class, kind })
    );
    let unknown = map
        .values_of(&options(1, 2, four))
        .expect("it is not critical");
    assert_eq!(unknown, OptionValues::default());
    let len_bytes = 8;
    let kind = 0x81;
    assert_eq!(
        map.values_of(&options(class, kind, eight)),
        Err(OptionRefusal::BadLength {
            class,
            kind,
            len_bytes
        })
    );
}

#[test]
fn values_of_an_earlier_map_are_left_out() {
    let mut map = OptionMap::default();
    map.add(&[mapping(1, 1, 4, 0), mapping(1, 2, 8, 1)])
        .expect("free fields");
    let mut values = OptionValues::default();
    assert!(map.set(&mut values, 0, &[9]));
    assert!(map.set(&mut values, 1, &[8]));
    assert!(!map.set(&mut values, 2, &[7]));
    map.delete(&[0, 1], |_| false).expect("no rule");
    map.add(&[mapping(1, 2, 4, 1)]).expect("a free field");
    let options = map.options_of(&values).expect("few options");
    assert!(options.is_empty());
    assert!(map.set(&mut values, 1, &[6]));
    let options = map.options_of(&values).expect("few options");
    assert_eq!(options.bytes(), [0, 1, 2, 1, 0, 0, 0, 6]);
}
