//! Tests meters as text: a meter prints as a text that reads back, and faults have names.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_packet::Instant;
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    BandKind, Config, MAX_BANDS, MeterId, Pipeline, RateBand, RateMeter, RateUnit,
};

fn read(text: &str) -> RateMeter {
    let mut rules = parse_rules("m", text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
    assert_eq!((rules.meters.len(), rules.flows.len()), (1, 0), "{text}");
    rules.meters.remove(0)
}

fn band(kind: BandKind, rate: u32, burst: u32) -> RateBand {
    RateBand { kind, rate, burst }
}

#[test]
fn meters_are_read_as_ovs_ofctl_reads_them() {
    let meter = read("meter=7 pktps burst stats bands=type=drop rate=3 burst_size=9");
    assert_eq!(
        meter,
        RateMeter {
            id: MeterId(7),
            unit: RateUnit::Packets,
            bands: [band(BandKind::Drop, 3, 9)].into(),
            has_burst: true,
            has_statistics: true,
        }
    );
    let meter = read("meter=controller,bands=type=drop,rate=5,type=drop,rate=7,burst_size=1");
    assert_eq!(meter.id.number(), MeterId::CONTROLLER);
    assert_eq!((meter.unit, meter.has_burst), (RateUnit::Kilobits, false));
    let bands = [band(BandKind::Drop, 5, 5), band(BandKind::Drop, 7, 1)];
    assert_eq!(*meter.bands, bands);
    let meter = read("meter=1,bands=type=drop,rate=5,type=dscp_remark,rate=7,prec_level=2");
    let remark = BandKind::Remark { levels: 2 };
    assert_eq!(
        *meter.bands,
        [band(BandKind::Drop, 5, 5), band(remark, 7, 7)]
    );
}

#[test]
fn any_meter_reads_back() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..1_000 {
        let number = match random.random_range(0..10) {
            0 => MeterId::CONTROLLER,
            1 => MeterId::SLOW_PATH,
            _ => random.random_range(1..=0xffff_0000),
        };
        let mut some = || random.random_range(1..=u32::MAX) >> random.random_range(0..31);
        let bands: Vec<RateBand> = (0..1 + some() as usize % MAX_BANDS)
            .map(|_| {
                let kind = match some() % 3 {
                    0 => BandKind::Drop,
                    _ => BandKind::Remark {
                        levels: some() as u8,
                    },
                };
                band(kind, some(), some())
            })
            .filter(|band| band.rate != 0 && band.burst != 0)
            .collect();
        if bands.is_empty() {
            continue;
        }
        let meter = RateMeter {
            id: MeterId(number.into()),
            unit: [RateUnit::Kilobits, RateUnit::Packets][random.random_range(0..2)],
            bands: bands.into(),
            has_burst: random.random(),
            has_statistics: random.random(),
        };
        assert_eq!(read(&meter.to_string()), meter);
    }
}

#[test]
fn faults_have_names() {
    for (text, what) in [
        ("meter=0,bands=type=drop,rate=1", "a meter (1 to 4294901760"),
        ("meter=1,kbps", "the meter has no bands"),
        ("meter=1,bands=", "the meter has no bands"),
        ("meter=1,bands=type=drop", "the band has no rate"),
        ("meter=1,bands=rate=1", "a band begins with its type"),
        (
            "meter=1,bands=type=drop,rate=1,prec_level=1",
            "only a band of type dscp_remark",
        ),
        ("meter=1,bands=type=paint,rate=1", "a type of band"),
        (
            "meter=1,bands=type=drop,rate=1,colour=2",
            "property of a band",
        ),
        (
            "meter=1,kbps,pktps,bands=type=drop,rate=1",
            "a meter has one unit",
        ),
        ("meter=1,mbps,bands=type=drop,rate=1", "property of a meter"),
    ] {
        let error = parse_rules("m", text).expect_err(text).to_string();
        assert!(error.contains(what), "{text}: {error}");
    }
    let many = "type=drop,rate=1,".repeat(MAX_BANDS + 1);
    let error = parse_rules("m", &format!("meter=1,bands={many}")).expect_err("too many");
    assert!(error.to_string().contains("more bands"), "{error}");
}

#[test]
fn a_rule_of_a_file_can_name_a_meter_of_it() {
    let text = "in_port=1,actions=meter:4,output:2\nmeter=4,pktps,bands=type=drop,rate=1\n";
    let mut pipeline = Pipeline::new(Config::default());
    let change = parse_rules("m", text).expect("it is right").into_change();
    pipeline
        .apply(&change, Instant::ZERO)
        .expect("the meter is there");
    let alone = parse_rules("m", "actions=meter:5,output:2").expect("it is a rule");
    let refused = pipeline.apply(&alone.into_change(), Instant::ZERO);
    assert!(refused.is_err());
}
