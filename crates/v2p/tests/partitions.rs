//! Tenants with their own lines: against one cache per tenant, and in agents that serve others
//! too.

mod lab;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_packet::Instant;
use thalweg_v2p::*;

use self::lab::*;

const STEPS: usize = 20_000;

fn vni(number: u32) -> Vni {
    Vni::new(number).unwrap()
}

fn random_mapping(random: &mut Pcg64, tenants: u32) -> Mapping {
    let key = tenant_key(random.random_range(0..tenants), random.random_range(0..24));
    Mapping {
        key,
        place: host(random.random_range(0..4), 0),
        version: MapVersion(random.random_range(0..7)),
    }
}

/// Compares with the slow twin: one cache for each partition, with as many lines.
fn compare(config: MappingCacheConfig, weights: &[(u32, u32)], rest: u32, seed: u64) {
    let named = || {
        weights
            .iter()
            .map(|(number, weight)| (vni(*number), *weight))
    };
    let partitions = Partitions::new(named(), rest).unwrap();
    let mut cache = Cache::new(&config);
    cache.set_partitions(Some(partitions.clone()));
    let twin = |tenant| {
        let capacity_entries = partitions.lines_of(tenant, config.capacity_entries, config.ways);
        Cache::new(&MappingCacheConfig {
            capacity_entries,
            ..config
        })
    };
    // Tenants 0 to 4; 3 and 4 have no name.
    let mut twins: Vec<Cache> = [0, 1, 2, 3].map(|number| twin(vni(number))).into();
    let mut random = Pcg64::seed_from_u64(seed);
    let mut changed = 0;
    for step in 0..STEPS {
        let context = format!("{config:?}, {weights:?}, {rest}, step {step}");
        let mapping = random_mapping(&mut random, 5);
        let twin = &mut twins[mapping.key.vni.number().min(3) as usize];
        let (set, twin_set) = (cache.locate(mapping.key), twin.locate(mapping.key));
        match random.random_range(0..10) {
            0..4 => {
                let found = cache.lookup(set, mapping.key);
                assert_eq!(found, twin.lookup(twin_set, mapping.key), "{context}");
            }
            4..9 => {
                let admission = match random.random_range(0..3) {
                    0 => Admission::Always,
                    1 => Admission::Inactive,
                    _ => Admission::Free,
                };
                let put = cache.put(set, mapping, admission);
                changed += u32::from(matches!(put, Put::Evicted(_)));
                assert_eq!(put, twin.put(twin_set, mapping, admission), "{context}");
            }
            _ => {
                let gone = cache.invalidate(set, mapping);
                assert_eq!(gone, twin.invalidate(twin_set, mapping), "{context}");
            }
        }
        let entries: Vec<_> = cache.entries().collect();
        let twins: Vec<_> = twins.iter().flat_map(Cache::entries).collect();
        assert_eq!(entries, twins, "{context}");
    }
    assert!(changed > 0, "nothing was ever displaced");
}

#[test]
fn a_partition_is_a_cache_of_its_own() {
    let paper = MappingCacheConfig::new(64);
    let artifact = MappingCacheConfig {
        clears_on_refresh: true,
        zero_is_free: true,
        ..paper
    };
    // Enough floors that no two of these keys and places share one.
    let plus = MappingCacheConfig {
        ways: 4,
        hash: IndexHash::Mixed,
        seed: 5,
        floor_count: 1 << 22,
        ..paper
    };
    for (seed, config) in [paper, artifact, plus].into_iter().enumerate() {
        let seed = seed as u64;
        compare(config, &[(0, 1), (1, 1), (2, 1)], 1, seed);
        compare(config, &[(0, 9), (1, 3), (2, 0)], 4, seed);
        compare(config, &[(0, 1), (1, 2), (2, 1)], 0, seed);
    }
}

#[test]
fn who_has_no_lines_is_told_so() {
    let mut cache = Cache::new(&MappingCacheConfig::new(8));
    cache.set_partitions(Some(Partitions::new([(vni(7), 1)], 0).unwrap()));
    let mapping = |vni| Mapping {
        key: tenant_key(vni, 1),
        place: host(0, 0),
        version: MapVersion::NONE,
    };
    let (known, other) = (mapping(7), mapping(8));
    let set = cache.locate(other.key);
    assert_eq!(
        cache.put(set, other, Admission::Always),
        Put::Refused(Refusal::NoMemory)
    );
    assert_eq!(cache.lookup(set, other.key), None);
    assert_eq!(cache.invalidate(set, other), Invalidated::Absent);
    let set = cache.locate(known.key);
    assert_eq!(cache.put(set, known, Admission::Always), Put::Inserted);
    // Without partitions again, the cache is empty.
    cache.set_partitions(None);
    assert_eq!(cache.entries().count(), 0);
    let set = cache.locate(other.key);
    assert_eq!(cache.put(set, other, Admission::Always), Put::Inserted);
}

/// A random packet of a tenant as a switch may see it, and its ingress.
fn random_packet(random: &mut Pcg64, tenant: u32, switch: u32) -> (Packet, Ingress) {
    let mut machine = || tenant_key(tenant, random.random_range(0..16));
    let (source, destination) = (machine(), machine());
    let place = |key: Key| {
        let number = key.address.to_ipv4().map_or(0, |address| address.to_bits()) % 8;
        host(number / HOSTS_PER_TOR, number % HOSTS_PER_TOR)
    };
    let to = match random.random_bool(0.5) {
        true => gateway(0),
        false => place(destination),
    };
    let mut packet = packet(source, place(source), destination, to);
    if random.random_bool(0.2) {
        let key = tenant_key(tenant, random.random_range(0..16));
        let reason = match random.random_bool(0.5) {
            true => CarryReason::Spilled,
            false => CarryReason::Promoted,
        };
        let (place, version) = (place(key), MapVersion(1));
        let mapping = Mapping {
            key,
            place,
            version,
        };
        if let Body::Data(data) = &mut packet.body {
            data.tags.carried = Some(Carried { mapping, reason });
        }
    }
    let own = packet.outer_source;
    let is_own = (0..HOSTS_PER_TOR).any(|index| host(switch, index) == own);
    let from = match switch < TORS && is_own {
        true => Ingress::Host(own),
        false => Ingress::Fabric,
    };
    (packet, from)
}

/// The treatment of a tenant's packets does not depend on the switch's other traffic.
#[test]
fn a_tenant_with_lines_of_its_own_notices_no_other() {
    let mut noticed = 0;
    for profile in [Profile::Artifact, Profile::Paper, Profile::Plus] {
        for switch in 0..SWITCHES {
            let agent = |is_divided: bool| {
                let config = AgentConfig {
                    learning_probability: 1.0,
                    ..config(switch, profile, 16)
                };
                let mut agent = SwitchAgent::new(&config, directory());
                let partitions = Partitions::new([(vni(7), 1)], 3).unwrap();
                agent.set_partitions(is_divided.then_some(partitions));
                agent
            };
            let [mut alone, mut busy] = [agent(true), agent(true)];
            let [mut alone_shared, mut busy_shared] = [agent(false), agent(false)];
            let mut random = Pcg64::seed_from_u64(switch.into());
            for step in 0..2_000 {
                let now = Instant::from_nanos(step * 1_000);
                let tenant = if random.random_bool(0.2) { 7 } else { 8 };
                let (packet, from) = random_packet(&mut random, tenant, switch);
                let handle = |agent: &mut SwitchAgent| {
                    let mut packet = packet;
                    let verdict = agent.handle_packet(&mut packet, from, now, || 0);
                    (verdict, packet, agent.poll_transmit())
                };
                let (seen, shared) = (handle(&mut busy), handle(&mut busy_shared));
                if tenant == 7 {
                    assert_eq!(
                        seen,
                        handle(&mut alone),
                        "{profile:?}, {switch}, step {step}"
                    );
                    noticed += u32::from(shared != handle(&mut alone_shared));
                }
            }
        }
    }
    // Without partitions it does depend on it.
    assert!(noticed > 100, "{noticed}");
}
