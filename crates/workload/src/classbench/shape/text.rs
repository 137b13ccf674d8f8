//! Parses and writes shapes as lines of a key and its values.

use std::fmt::Write;
use std::str::FromStr;

use super::super::PortRange;
use super::{
    CLASSES, LengthShare, PortClass, PortShares, ServiceShare, Shape, ShapeError, Sharing, error,
};

/// The keys of lines, in the order of writing.
pub const SHAPE_KEYS: [&str; 9] = [
    "family",
    "sharing",
    "lengths",
    "service",
    "source_ports",
    "source_ranges",
    "destination_ports",
    "destination_ranges",
    "tcp_flags",
];

impl Shape {
    /// Adds one line's values; `line` excludes the key.
    ///
    /// # Errors
    /// If there is no such key, or the line is malformed.
    pub fn add(&mut self, key: &str, line: &str) -> Result<(), ShapeError> {
        match key {
            "family" => {
                self.is_ipv6 = match line {
                    "ipv4" => false,
                    "ipv6" => true,
                    _ => return error(format!("{line:?} is neither ipv4 nor ipv6; write one")),
                }
            }
            "sharing" => {
                let [filters, sources, destinations] = parts(line)?;
                self.sharing.push(Sharing {
                    filters,
                    sources,
                    destinations,
                });
            }
            "lengths" => self.add_lengths(line)?,
            "service" => self.services.push(parse_service(line)?),
            "source_ports" => add_ports(&mut self.source_ports.exact, line)?,
            "destination_ports" => add_ports(&mut self.destination_ports.exact, line)?,
            "source_ranges" => add_ranges(&mut self.source_ports.ranges, line)?,
            "destination_ranges" => add_ranges(&mut self.destination_ports.ranges, line)?,
            "tcp_flags" => {
                let words: Vec<&str> = line.split([' ', '/']).collect();
                let [flags, mask, weight] = words[..] else {
                    return error("write `0xFLAGS/0xMASK weight`");
                };
                self.tcp_flags
                    .push((hexadecimal(flags)?, hexadecimal(mask)?, parse(weight)?));
            }
            _ => {
                let keys = SHAPE_KEYS.join(", ");
                return error(format!("there is no key {key:?}; the keys are {keys}"));
            }
        }
        Ok(())
    }

    fn add_lengths(&mut self, line: &str) -> Result<(), ShapeError> {
        let (front, rest) = line.split_once(':').unwrap_or((line, ""));
        let words: Vec<&str> = front.split_whitespace().collect();
        let [source_ports, destination_ports, source] = words[..] else {
            return error("write two classes of ports, a source length, `:`, `length=weight`s");
        };
        for (destination, weight) in weighted(rest) {
            self.lengths.push(LengthShare {
                ports: (parse_class(source_ports)?, parse_class(destination_ports)?),
                source: parse(source)?,
                destination: parse(destination)?,
                weight: parse(weight)?,
            });
        }
        Ok(())
    }

    /// The shape as keys and lines that [`Shape::add`] accepts.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let family = if self.is_ipv6 { "ipv6" } else { "ipv4" };
        let mut lines = vec![("family", family.to_owned())];
        for Sharing {
            filters,
            sources,
            destinations,
        } in &self.sharing
        {
            lines.push(("sharing", format!("{filters} {sources} {destinations}")));
        }
        let front = |one: &LengthShare| (one.ports, one.source);
        for of_source in self.lengths.chunk_by(|a, b| front(a) == front(b)) {
            let (source_ports, destination_ports) = of_source[0].ports;
            let names = (source_ports.name(), destination_ports.name());
            let mut line = format!("{} {} {}:", names.0, names.1, of_source[0].source);
            for one in of_source {
                write!(line, " {}={}", one.destination, one.weight)
                    .expect("a String takes any text");
            }
            lines.push(("lengths", line));
        }
        for service in &self.services {
            let protocol = service.protocol.map_or("any".to_owned(), |p| p.to_string());
            let (source, destination) = (service.source.name(), service.destination.name());
            let weight = service.weight;
            lines.push((
                "service",
                format!("{protocol} {source} {destination} {weight}"),
            ));
        }
        let mut list = |key, words: Vec<String>| {
            if !words.is_empty() {
                lines.push((key, words.join(" ")));
            }
        };
        let exact = |ports: &PortShares| -> Vec<String> {
            let ports = ports.exact.iter();
            ports
                .map(|(port, weight)| format!("{port}={weight}"))
                .collect()
        };
        let ranges = |ports: &PortShares| -> Vec<String> {
            let ranges = ports.ranges.iter();
            let word = |(range, weight): &(PortRange, u32)| {
                format!("{}-{}={weight}", range.low(), range.high())
            };
            ranges.map(word).collect()
        };
        list("source_ports", exact(&self.source_ports));
        list("source_ranges", ranges(&self.source_ports));
        list("destination_ports", exact(&self.destination_ports));
        list("destination_ranges", ranges(&self.destination_ports));
        for (flags, mask, weight) in &self.tcp_flags {
            lines.push(("tcp_flags", format!("{flags:#06x}/{mask:#06x} {weight}")));
        }
        lines
    }
}

fn parse<T: FromStr>(word: &str) -> Result<T, ShapeError> {
    let number = word.trim().parse();
    number.map_err(|_| ShapeError(format!("{word:?} is not a number, or too large")))
}

fn hexadecimal(word: &str) -> Result<u16, ShapeError> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let number = u16::from_str_radix(digits, 16);
    number.map_err(|_| ShapeError(format!("{word:?} is not hexadecimal, or too large")))
}

fn parts<const N: usize>(line: &str) -> Result<[u32; N], ShapeError> {
    let numbers: Vec<u32> = line
        .split_whitespace()
        .map(parse)
        .collect::<Result<_, _>>()?;
    let count = numbers.len();
    let wrong = |_| ShapeError(format!("{count} numbers where {N} are needed"));
    numbers.try_into().map_err(wrong)
}

/// The words `item=weight` of a line; a word without a weight has an empty one.
fn weighted(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = line.split_whitespace();
    words.map(|word| word.split_once('=').unwrap_or((word, "")))
}

fn parse_class(word: &str) -> Result<PortClass, ShapeError> {
    let known = CLASSES.iter().find(|(_, name)| *name == word);
    known.map(|(class, _)| *class).ok_or_else(|| {
        let names = CLASSES.map(|(_, name)| name).join(", ");
        ShapeError(format!("there is no class {word:?}; choose of {names}"))
    })
}

fn parse_service(line: &str) -> Result<ServiceShare, ShapeError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [protocol, source, destination, weight] = words[..] else {
        return error("write a protocol, the classes of source and destination ports, a weight");
    };
    Ok(ServiceShare {
        protocol: match protocol {
            "any" => None,
            number => Some(parse(number)?),
        },
        source: parse_class(source)?,
        destination: parse_class(destination)?,
        weight: parse(weight)?,
    })
}

fn add_ports(ports: &mut Vec<(u16, u32)>, line: &str) -> Result<(), ShapeError> {
    for (port, weight) in weighted(line) {
        ports.push((parse(port)?, parse(weight)?));
    }
    Ok(())
}

fn add_ranges(ranges: &mut Vec<(PortRange, u32)>, line: &str) -> Result<(), ShapeError> {
    for (range, weight) in weighted(line) {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let Some(ports) = PortRange::new(parse(low)?, parse(high)?) else {
            return error(format!(
                "the range {range} is empty; write the lower port first"
            ));
        };
        ranges.push((ports, parse(weight)?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::*;

    #[test]
    fn lines_read_back() {
        for profile in Profile::ALL {
            let shape = Shape::built_in(profile);
            assert_eq!(shape.check(), Ok(()), "{profile:?}");
            let mut again = Shape::default();
            for (key, line) in shape.lines() {
                again.add(key, &line).unwrap();
            }
            assert_eq!(again, shape, "{profile:?}");
        }
    }

    #[test]
    fn slips_are_told() {
        let cases = [
            ("tea", "1", "there is no key \"tea\""),
            ("family", "ipx", "neither ipv4 nor ipv6"),
            ("sharing", "1 2", "2 numbers where 3 are needed"),
            ("lengths", "3 4=5", "write two classes of ports"),
            ("lengths", "any any 3: 4", "\"\" is not a number"),
            ("service", "6 any some 4", "there is no class \"some\""),
            ("service", "6 any", "write a protocol"),
            ("source_ranges", "9-8=1", "the range 9-8 is empty"),
            ("source_ports", "65536=1", "too large"),
            ("tcp_flags", "0x00 1", "write `0xFLAGS/0xMASK weight`"),
        ];
        for (key, line, expected) in cases {
            let told = Shape::default().add(key, line).unwrap_err().to_string();
            assert!(told.contains(expected), "{key} {line}: {told}");
        }
    }
}
