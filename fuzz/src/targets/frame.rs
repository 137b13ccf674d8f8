//! Whole frames: parsed, extracted into keys, and rewritten.
//!
//! 1. No bytes cause a panic.
//! 2. A field has the same value in every layout.
//! 3. Pushing and popping a VLAN tag restores the bytes.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use thalweg_packet::{
    FieldDescriptor, FieldId, Headers, Layout, Packet, Receipt, Rewriter, standard,
};

/// The catalogue, with all ingress fields in as few layouts as possible, and each field alone.
struct Catalogue {
    fields: Arc<Vec<FieldDescriptor>>,
    wide: Vec<Layout>,
    single: Vec<(FieldId, Layout)>,
}

impl Catalogue {
    fn new() -> Self {
        let fields = Arc::new(standard::fields());
        let build = |used: &BTreeSet<FieldId>| Layout::new(Arc::clone(&fields), used);
        let mut wide = Vec::new();
        let mut single = Vec::new();
        let mut used = BTreeSet::new();
        for (index, field) in fields.iter().enumerate() {
            let id = FieldId(u16::try_from(index).expect("field ids have 16 bits"));
            if !field.is_ingress() {
                continue;
            }
            used.insert(id);
            if build(&used).is_err() {
                used.remove(&id);
                wide.push(build(&used).expect("it fitted before the last field"));
                used = BTreeSet::from([id]);
            }
            let alone = build(&BTreeSet::from([id])).expect("one field fits");
            single.push((id, alone));
        }
        wide.push(build(&used).expect("it fitted when the last field was added"));
        Self {
            fields,
            wide,
            single,
        }
    }
}

/// Runs one input.
pub fn run(input: &[u8]) {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    let catalogue = CATALOGUE.get_or_init(Catalogue::new);
    let Ok(headers) = Headers::parse(input) else {
        return;
    };
    extract(catalogue, input, &headers);
    rewrite(catalogue, input, headers);
}

fn extract(catalogue: &Catalogue, frame: &[u8], headers: &Headers) {
    let receipt = Receipt::from_port(1);
    let mut keys = Vec::with_capacity(catalogue.wide.len());
    for layout in &catalogue.wide {
        let mut key = vec![0; layout.words()];
        layout.extract(frame, headers, &receipt, &mut key);
        keys.push(key);
    }
    for (field, layout) in &catalogue.single {
        let mut key = vec![0; layout.words()];
        layout.extract(frame, headers, &receipt, &mut key);
        let alone = layout.get(&key, *field);
        for (wide, key) in catalogue.wide.iter().zip(&keys) {
            if let Some(value) = wide.get(key, *field) {
                assert_eq!(Some(value), alone, "{}", layout.descriptor(*field).name);
            }
        }
    }
}

fn rewrite(catalogue: &Catalogue, frame: &[u8], headers: Headers) {
    let mut packet = Packet::from_bytes(frame);
    let mut moved = headers;
    let mut rewriter = Rewriter::new(&mut packet, &mut moved);
    if rewriter.push_vlan(0x88a8, 7) {
        assert!(rewriter.pop_vlan(), "the pushed tag is there");
    }
    assert_eq!(packet.bytes(), frame, "push and pop left a trace");

    let mut packet = Packet::from_bytes(frame);
    let mut moved = headers;
    let mut rewriter = Rewriter::new(&mut packet, &mut moved);
    let value = frame
        .iter()
        .fold(0_u128, |sum, byte| sum.rotate_left(7) ^ u128::from(*byte));
    for field in catalogue
        .fields
        .iter()
        .filter(|field| field.width_bits <= 128)
    {
        rewriter.write(&field.source, field.width_bits, value, u128::MAX);
    }
    rewriter.decrement_ttl();
    rewriter.push_mpls(0x8847, 0x0001_01ff);
    rewriter.decrement_mpls_ttl();
    rewriter.push_vlan(0x8100, 1);
    rewriter.pop_mpls(0x0800);
    // The bytes must still be a frame, whatever it contains now.
    let _ = Headers::parse(packet.bytes());
}
