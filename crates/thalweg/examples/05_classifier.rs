//! Looks up one key in two classifiers, and compares the bits that they examined.
//!
//! A classifier finds the rule that matches a key, and reports the bits that decided it. Fewer
//! bits make a wider cache entry. [`Linear`], the oracle, examines all bits of every rule that
//! it tests. Prefix tries and stages let [`TupleSpace`] examine fewer. Flipping every other
//! bit shows that both are right.
//!
//! Prints:
//!
//! ```text
//! linear: Some(RuleId(2)) by nw_src/0xffff0000 nw_dst/0xffffffff tp_dst/0xffff: 64 bits; others that change the answer: 0
//! tuple space: Some(RuleId(2)) by nw_src/0xf8000000 nw_dst/0xff000000: 13 bits; others that change the answer: 0
//! ```

use std::{error::Error, io::Write, sync::Arc};

use thalweg_classifier::{
    Classifier, Linear, Pattern, Precedence, RuleId, TupleSpace, TupleSpaceConfig, Version,
};
use thalweg_packet::standard::{self, IP_DST, IP_SRC, TP_DST};
use thalweg_packet::{FieldId, Layout};

/// The conditions of each rule, most important rule first: field, value, mask.
const RULES: [&[(FieldId, u128, u128)]; 4] = [
    &[(IP_SRC, 0x0a01_0000, 0xffff_0000), (TP_DST, 22, 0xffff)],
    &[(IP_DST, 0xc000_0207, 0xffff_ffff), (TP_DST, 53, 0xffff)],
    &[(IP_DST, 0x0a00_0000, 0xff00_0000)],
    &[],
];

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}

/// Looks up one key in both classifiers and checks their masks.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let fields = [IP_SRC, IP_DST, TP_DST];
    let layout = Layout::new(Arc::new(standard::fields()), &fields.into())?;
    let config = TupleSpaceConfig::new(&layout, &fields, 1);
    let mut classifiers: [(&str, Box<dyn Classifier>); 2] = [
        ("linear", Box::new(Linear::new(layout.words()))),
        ("tuple space", Box::new(TupleSpace::new(config))),
    ];
    let words = |terms: &mut dyn Iterator<Item = (FieldId, u128)>| {
        let mut words = vec![0; layout.words()];
        terms.for_each(|(field, bits)| layout.set(&mut words, field, bits));
        words
    };
    let key = words(&mut [(IP_DST, 0x0a00_0002)].into_iter());
    let version = Version::FIRST;
    for (name, classifier) in &mut classifiers {
        for (age, terms) in (0..).zip(RULES) {
            let value = &words(&mut terms.iter().map(|(field, value, _)| (*field, *value)))[..];
            let mask = &words(&mut terms.iter().map(|(field, _, mask)| (*field, *mask)))[..];
            let older_wins = Precedence::new(10, age.into());
            classifier.insert(Pattern { value, mask }, older_wins, RuleId(age), version);
        }
        let mut examined = vec![0; layout.words()];
        let rule = classifier.lookup_examined(&key, version, &mut examined);
        write!(out, "{name}: {rule:?} by")?;
        let (mut count, mut changed) = (0, 0);
        for (field, bits) in layout.fields_in(&examined) {
            write!(out, " {}/{bits:#x}", layout.descriptor(field).name)?;
            count += bits.count_ones();
        }
        for bit in 0..layout.words() * 64 {
            if examined[bit / 64] >> (bit % 64) & 1 == 0 {
                let mut other = key.clone();
                other[bit / 64] ^= 1 << (bit % 64);
                changed += u32::from(classifier.lookup(&other, version) != rule);
            }
        }
        writeln!(
            out,
            ": {count} bits; others that change the answer: {changed}"
        )?;
    }
    Ok(())
}
