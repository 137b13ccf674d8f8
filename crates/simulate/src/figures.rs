//! Draws the rows as pictures, after the paper's Figures 5 to 10.
//!
//! | picture | after | if the plan has several |
//! | --- | --- | --- |
//! | hit rate, FCT, first packet against the size of caches | 5 and 6 | sizes of caches |
//! | bytes by pod, and by switch of the last pod with gateways | 7 and 8 | schemes, and pods |
//! | FCT and first packet against gateways | 9 | numbers of gateways |
//! | the same against pods | 10 | numbers of pods |
//!
//! A point is the mean over the seeds.

use thalweg_config::{Plan, PlannedTopology};

use super::row::{Row, Variety};
use super::runs::gateway_count;
use super::tables::{BASELINE, improvement};
use thalweg_command::report::{Axis, Heat, Lines, Series, Shape, Unit, format_bytes};

/// Schemes for which the share of packets that avoid gateways means nothing (section 5.1).
const WITHOUT_HIT_RATE: [&str; 4] = ["direct", "ondemand", "offload", "bluebird"];

/// The cache size of the paper's analyses, in percent.
const ANALYSED: f64 = 50.0;

/// Lines against cache size.
pub(super) fn by_cache(rows: &[Row]) -> Vec<Lines> {
    let mut sizes: Vec<f64> = rows.iter().filter_map(Row::cache_size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let (Some(&least), Some(&most)) = (sizes.first(), sizes.last()) else {
        return Vec::new();
    };
    if sizes.len() < 2 {
        return Vec::new();
    }
    let is_percent = rows.iter().any(|row| row.cache_percent.is_some());
    let label = match is_percent {
        true => "cache size, entries of all switches in percent of the machines",
        false => "entries of a switch",
    };
    let place = |row: &Row| match row.cache_size() {
        Some(size) => vec![size],
        None => vec![least, most],
    };
    let picture = |caption: &str, y: Axis, of: &dyn Fn(&Row) -> Option<f64>| Lines {
        caption: caption.to_owned(),
        note: "Schemes without caches are level lines.".to_owned(),
        x: Axis::logarithmic(label, Unit::Count),
        y,
        series: series(rows, &place, of),
        bands: Vec::new(),
    };
    vec![
        picture(
            "Hit rate",
            Axis::linear("packets that avoid gateways", Unit::Share),
            &|row| has_hit_rate(row).then_some(row.hit_rate),
        ),
        picture("FCT, times better than NoCache", factor(), &|row| {
            improvement(rows, row, |row| row.mean_fct_us)
        }),
        picture(
            "First packet, times better than NoCache",
            factor(),
            &|row| improvement(rows, row, |row| row.mean_first_packet_us),
        ),
    ]
}

fn has_hit_rate(row: &Row) -> bool {
    !WITHOUT_HIT_RATE.contains(&row.scheme.as_str())
}

fn factor() -> Axis {
    Axis::linear("times better", Unit::Count)
}

/// Lines against the number of gateways, or of pods.
pub(super) fn by_fabric(plan: &Plan, rows: &[Row]) -> Vec<Lines> {
    let variety = Variety::of(plan);
    let mut pictures = Vec::new();
    let mut add = |what: &str, of: fn(&Row) -> u32| {
        for name in ["FCT", "First packet"] {
            let figure = |row: &Row| match name {
                "FCT" => row.mean_fct_us,
                _ => row.mean_first_packet_us,
            };
            let place = |row: &Row| vec![f64::from(of(row))];
            pictures.push(Lines {
                caption: format!("{name} against {what}"),
                note: "The horizontal axis is logarithmic.".to_owned(),
                x: Axis::logarithmic(what, Unit::Count),
                y: Axis::linear("time", Unit::Nanoseconds),
                series: series(rows, &place, &|row| Some(figure(row) * 1e3)),
                bands: Vec::new(),
            });
        }
    };
    if variety.gateways {
        add("gateways", |row| row.gateways);
    }
    if variety.pods {
        add("pods", |row| row.pods);
    }
    pictures
}

/// Values that are averaged into one point.
struct Point {
    at: f64,
    values: Vec<f64>,
}

impl Point {
    fn mean(&self) -> (f64, f64) {
        let sum: f64 = self.values.iter().sum();
        (self.at, sum / self.values.len() as f64)
    }
}

/// One series per scheme: the mean of its rows at each place.
fn series(
    rows: &[Row],
    places: &dyn Fn(&Row) -> Vec<f64>,
    of: &dyn Fn(&Row) -> Option<f64>,
) -> Vec<Series> {
    let mut all: Vec<(String, Vec<Point>)> = Vec::new();
    let first = rows.first().map(|row| &row.loss_detection);
    let has_several = rows.iter().any(|row| Some(&row.loss_detection) != first);
    // Schemes that are missing in one picture come last, so that the others keep their
    // colours.
    let (some, every): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| !has_hit_rate(row));
    for row in every.into_iter().chain(some) {
        let Some(value) = of(row) else {
            continue;
        };
        let name = match (&row.loss_detection, has_several) {
            (Some(detection), true) => format!("{}, {detection}", row.scheme),
            _ => row.scheme.clone(),
        };
        let index = all.iter().position(|(other, _)| *other == name);
        let index = index.unwrap_or_else(|| {
            all.push((name, Vec::new()));
            all.len() - 1
        });
        let points = &mut all[index].1;
        for at in places(row) {
            match points.iter_mut().find(|point| point.at == at) {
                Some(point) => point.values.push(value),
                None => points.push(Point {
                    at,
                    values: vec![value],
                }),
            }
        }
    }
    let line = |(name, points): (String, Vec<Point>)| {
        let mut points: Vec<(f64, f64)> = points.iter().map(Point::mean).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Series {
            name,
            shape: Shape::MarkedLine,
            points,
        }
    };
    all.into_iter().map(line).collect()
}

/// Heat maps of the bytes that switches processed, for the first fabric and seed.
pub(super) fn heat_maps(plan: &Plan, rows: &[Row]) -> Vec<Heat> {
    let Some(fabric) = plan.topologies.first() else {
        return Vec::new();
    };
    let shown = at_one_size(rows, fabric);
    if shown.len() < 2 || fabric.shape.pods < 2 {
        return Vec::new();
    }
    let shape = &fabric.shape;
    let by_pod = |row: &Row| {
        let bytes = |pod| bytes_of(row, fabric, pod).iter().sum();
        (0..shape.pods).map(bytes).collect()
    };
    let named = |row: &Row| match row.cache_size() {
        Some(_) => format!("{} {}", row.scheme, row.cache_text()),
        None => row.scheme.clone(),
    };
    let mut maps = vec![Heat {
        caption: "Bytes that switches processed, by pod".to_owned(),
        note: format!("Gateways are in pods {}.", gateway_pods(fabric)),
        columns: (1..=shape.pods).map(|pod| pod.to_string()).collect(),
        rows: shown.iter().map(|row| (named(row), by_pod(row))).collect(),
        write: |bytes| format_bytes(bytes as u64),
    }];
    if let Some(&tor) = shape.gateway_tors.last() {
        let pod = tor / shape.tors_per_pod;
        let by_switch = |row: &Row| bytes_of(row, fabric, pod);
        let spines = (1..=shape.spines_per_pod).map(|number| format!("spine {number}"));
        let tors = (0..shape.tors_per_pod).map(|place| {
            let is_gateway = shape
                .gateway_tors
                .contains(&(pod * shape.tors_per_pod + place));
            let name = if is_gateway { "gateway ToR" } else { "ToR" };
            format!("{name} {}", place + 1)
        });
        maps.push(Heat {
            caption: format!("The same in pod {}, by switch", pod + 1),
            note: String::new(),
            columns: spines.chain(tors).collect(),
            rows: shown
                .iter()
                .map(|row| (named(row), by_switch(row)))
                .collect(),
            write: |bytes| format_bytes(bytes as u64),
        });
    }
    maps
}

/// The bytes of a pod's switches, spines first.
fn bytes_of(row: &Row, fabric: &PlannedTopology, pod: u32) -> Vec<f64> {
    let shape = &fabric.shape;
    let cores = shape.spines_per_pod * shape.core_links_per_spine;
    let tors = cores + shape.pods * shape.spines_per_pod;
    let spine = cores + pod * shape.spines_per_pod;
    let tor = tors + pod * shape.tors_per_pod;
    let spines = spine..spine + shape.spines_per_pod;
    let switches = spines.chain(tor..tor + shape.tors_per_pod);
    let bytes = switches.filter_map(|index| row.switch_bytes.get(index as usize));
    bytes.map(|bytes| *bytes as f64).collect()
}

fn gateway_pods(fabric: &PlannedTopology) -> String {
    let shape = &fabric.shape;
    let mut pods: Vec<u32> = shape
        .gateway_tors
        .iter()
        .map(|tor| tor / shape.tors_per_pod + 1)
        .collect();
    pods.dedup();
    let pods: Vec<String> = pods.iter().map(u32::to_string).collect();
    pods.join(", ")
}

/// One row per scheme in the fabric, at the size of the paper's analyses or the nearest one.
fn at_one_size<'a>(rows: &'a [Row], fabric: &PlannedTopology) -> Vec<&'a Row> {
    let mut shown: Vec<&Row> = Vec::new();
    let distance = |row: &Row| {
        let size = row.cache_size().unwrap_or(ANALYSED);
        (size / ANALYSED).ln().abs()
    };
    let here = rows.iter().filter(|row| {
        row.pods == fabric.shape.pods && row.gateways == gateway_count(&fabric.shape)
    });
    for row in here {
        match shown.iter_mut().find(|other| other.scheme == row.scheme) {
            Some(other) if distance(row) < distance(other) => *other = row,
            Some(_) => {}
            None => shown.push(row),
        }
    }
    // The baseline first, as in the paper.
    shown.sort_by_key(|row| row.scheme != BASELINE);
    shown
}
