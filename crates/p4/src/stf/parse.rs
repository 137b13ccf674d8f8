//! Parses text into statements; names are not looked up yet.

/// A test as written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Script {
    /// Line numbers (from 1) with their statements.
    pub statements: Vec<(usize, Statement)>,
}

/// A statement.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of the format")]
pub enum Statement {
    Add {
        table: String,
        priority: Option<u32>,
        matches: Vec<(String, String)>,
        action: String,
        arguments: Vec<(String, String)>,
        label: Option<String>,
    },
    SetDefault {
        table: String,
        action: String,
        arguments: Vec<(String, String)>,
    },
    Packet {
        port: u32,
        bytes: Vec<u8>,
    },
    /// `nibbles` is `None` if any packet will do.
    Expect {
        port: u32,
        /// A nibble; `None` if it does not matter.
        nibbles: Option<Vec<Option<u8>>>,
        is_whole: bool,
    },
    NoPacket,
    Wait,
    RemoveAll,
    CheckCounter(CounterCheck),
    MirrorToPort {
        session: u16,
        port: u32,
    },
    MirrorToGroup {
        session: u16,
        group: u16,
    },
    CreateGroup(u16),
    CreateNode {
        instance: u16,
        ports: Vec<u32>,
    },
    Associate {
        group: u16,
        node: usize,
    },
    /// A counter or register that is only read.
    Read,
    WriteRegister {
        register: String,
        index: u32,
        value: String,
    },
    ResetRegister(String),
    SetRates {
        meter: String,
        index: u32,
        /// Rate per microsecond, and burst.
        rates: Vec<(String, u64)>,
    },
}

/// The expected value of a counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterCheck {
    /// Its name.
    pub counter: String,
    /// An index, or `$` and the label of an entry.
    pub index: String,
    /// `None` if it must only exist.
    pub condition: Option<(bool, Comparison, u64)>,
}

/// How a count is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A line that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct StfError {
    /// The line, from 1.
    pub line: usize,
    /// A description of the fault.
    pub what: String,
}

impl Script {
    /// The packets that the script sends.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let statements = self.statements.iter();
        statements.filter_map(|(_, statement)| match statement {
            Statement::Packet { bytes, .. } => Some(bytes.as_slice()),
            _ => None,
        })
    }

    /// Parses a test.
    ///
    /// # Errors
    /// Returns the first line that is no statement of the format.
    pub fn parse(text: &str) -> Result<Script, StfError> {
        let mut statements = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let at = index + 1;
            let statement = parse_line(line).map_err(|what| StfError { line: at, what })?;
            statements.push((at, statement));
        }
        Ok(Script { statements })
    }
}

type Read<T> = Result<T, String>;

fn parse_line(line: &str) -> Read<Statement> {
    let (keyword, rest) = split_word(line);
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    match keyword.to_ascii_lowercase().as_str() {
        "add" => parse_add(rest),
        "setdefault" => {
            let (table, call) = split_word(rest);
            let (action, arguments) = parse_call(call.trim())?;
            Ok(Statement::SetDefault {
                table: table.to_owned(),
                action,
                arguments,
            })
        }
        "packet" => {
            let (port, hex) = split_word(rest);
            Ok(Statement::Packet {
                port: number(port)?,
                bytes: hex_bytes(hex)?,
            })
        }
        "expect" => parse_expect(rest),
        "no_packet" => Ok(Statement::NoPacket),
        "wait" => Ok(Statement::Wait),
        "remove" if words == ["all"] => Ok(Statement::RemoveAll),
        "check_counter" => parse_check(rest).map(Statement::CheckCounter),
        "mirroring_add" => Ok(Statement::MirrorToPort {
            session: number(word(&words, 0)?)?,
            port: number(word(&words, 1)?)?,
        }),
        "mirroring_add_mc" => Ok(Statement::MirrorToGroup {
            session: number(word(&words, 0)?)?,
            group: number(word(&words, 1)?)?,
        }),
        "mc_mgrp_create" => Ok(Statement::CreateGroup(number(word(&words, 0)?)?)),
        "mc_node_create" => {
            let ports = words.iter().skip(1).map(|port| number(port));
            Ok(Statement::CreateNode {
                instance: number(word(&words, 0)?)?,
                ports: ports.collect::<Read<_>>()?,
            })
        }
        "mc_node_associate" => Ok(Statement::Associate {
            group: number(word(&words, 0)?)?,
            node: number(word(&words, 1)?)?,
        }),
        "counter_read" | "register_read" => Ok(Statement::Read),
        "register_reset" => Ok(Statement::ResetRegister(word(&words, 0)?.to_owned())),
        "register_write" => Ok(Statement::WriteRegister {
            register: word(&words, 0)?.to_owned(),
            index: number(word(&words, 1)?)?,
            value: word(&words, 2)?.to_owned(),
        }),
        "meter_set_rates" => {
            let mut rates = Vec::new();
            for rate in words.iter().skip(2) {
                let parts = rate.split_once(':');
                let (rate, burst) = parts.ok_or_else(|| format!("{rate:?} is no RATE:BURST"))?;
                rates.push((rate.to_owned(), number(burst)?));
            }
            Ok(Statement::SetRates {
                meter: word(&words, 0)?.to_owned(),
                index: number(word(&words, 1)?)?,
                rates,
            })
        }
        other => Err(format!("{other:?} is no statement of STF")),
    }
}

fn split_word(text: &str) -> (&str, &str) {
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

fn word<'a>(words: &[&'a str], index: usize) -> Read<&'a str> {
    let found = words.get(index).copied();
    found.ok_or_else(|| "something is missing at the end".to_owned())
}

fn number<T: TryFrom<num_bigint::BigInt>>(text: &str) -> Read<T> {
    let number = crate::json::parse_number(text).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("{text:?} is no number, or out of range"))
}

fn hex_bytes(text: &str) -> Read<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .map(|digit| {
            digit
                .to_digit(16)
                .ok_or_else(|| format!("{digit:?} is no hex digit"))
        })
        .collect::<Read<_>>()?;
    if digits.len() % 2 == 1 {
        return Err("a packet has an even number of digits".to_owned());
    }
    Ok(digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect())
}

fn parse_expect(rest: &str) -> Read<Statement> {
    let (port, hex) = split_word(rest);
    let hex: String = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let (digits, is_whole) = match hex.strip_suffix('$') {
        Some(digits) => (digits, true),
        None => (hex.as_str(), false),
    };
    let nibble = |digit: char| match digit {
        '*' => Ok(None),
        _ => match digit.to_digit(16) {
            Some(value) => Ok(Some(value as u8)),
            None => Err(format!("{digit:?} is no hex digit")),
        },
    };
    let nibbles: Vec<Option<u8>> = digits.chars().map(nibble).collect::<Read<_>>()?;
    Ok(Statement::Expect {
        port: number(port)?,
        nibbles: (!nibbles.is_empty() || is_whole).then_some(nibbles),
        is_whole,
    })
}

/// `table [priority] key:value ... action(...) [= label]`.
fn parse_add(rest: &str) -> Read<Statement> {
    let open = rest.find('(').ok_or("an entry needs an action(...)")?;
    // A parenthesis that closes before any opens is ignored.
    let end = rest[open..].rfind(')');
    let close = open + end.ok_or("the action's parameters have no end")?;
    let before = &rest[..open];
    let label = rest[close + 1..].trim().strip_prefix('=');
    let label = label.map(|label| label.trim().to_owned());
    let mut words: Vec<&str> = before.split_whitespace().collect();
    let action = words.pop().ok_or("an entry needs a table and an action")?;
    let call = format!("{action}{}", &rest[open..=close]);
    let (action, arguments) = parse_call(&call)?;
    let mut words = words.into_iter().peekable();
    let table = words.next().ok_or("an entry needs a table")?.to_owned();
    let priority = match words.peek() {
        Some(word) if !word.contains(':') => {
            let priority = number(word)?;
            words.next();
            Some(priority)
        }
        _ => None,
    };
    let matches = words.map(pair).collect::<Read<_>>()?;
    Ok(Statement::Add {
        table,
        priority,
        matches,
        action,
        arguments,
        label,
    })
}

fn pair(text: &str) -> Read<(String, String)> {
    let pair = text.rsplit_once(':');
    let (name, value) = pair.ok_or_else(|| format!("{text:?} is no name:value"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// `action(parameter:value, ...)`; the parentheses may be missing.
fn parse_call(text: &str) -> Read<(String, Vec<(String, String)>)> {
    let Some((action, rest)) = text.split_once('(') else {
        return Ok((text.to_owned(), Vec::new()));
    };
    let inside = rest
        .trim_end()
        .strip_suffix(')')
        .ok_or("a parenthesis has no end")?;
    let arguments = inside
        .split(',')
        .filter(|argument| !argument.trim().is_empty());
    let arguments = arguments.map(pair).collect::<Read<_>>()?;
    Ok((action.trim().to_owned(), arguments))
}

/// `name(index) [packets|bytes op number]`.
fn parse_check(rest: &str) -> Read<CounterCheck> {
    let (counter, rest) = rest
        .split_once('(')
        .ok_or("a counter is written like name(index)")?;
    let (index, rest) = rest.split_once(')').ok_or("a parenthesis has no end")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let condition = match words.as_slice() {
        [] => None,
        [kind, operator, count] => {
            let is_bytes = match *kind {
                "bytes" => true,
                "packets" => false,
                other => return Err(format!("a counter counts packets or bytes, not {other:?}")),
            };
            let comparison = match *operator {
                "==" => Comparison::Equal,
                "!=" => Comparison::NotEqual,
                "<" => Comparison::Less,
                "<=" => Comparison::LessOrEqual,
                ">" => Comparison::Greater,
                ">=" => Comparison::GreaterOrEqual,
                other => return Err(format!("{other:?} compares nothing")),
            };
            Some((is_bytes, comparison, number(count)?))
        }
        _ => return Err("a check is written like name(index) packets == 3".to_owned()),
    };
    Ok(CounterCheck {
        counter: counter.trim().to_owned(),
        index: index.trim().to_owned(),
        condition,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read() {
        let text = "# a comment\n\
            ADD tab1 100 a.b:0x1*  h$3.f:10/8 act(port:2, idx:10) = A # more\n\
            packet 1 00 ff\n expect 2 0* F$\nexpect 3\n\
            check_counter cnt($A) bytes >= 39\nsetdefault t a()\n";
        let script = Script::parse(text).expect("a script");
        let lines: Vec<usize> = script.statements.iter().map(|one| one.0).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6, 7]);
        let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect()
        };
        assert_eq!(
            script.statements[0].1,
            Statement::Add {
                table: "tab1".into(),
                priority: Some(100),
                matches: own(&[("a.b", "0x1*"), ("h$3.f", "10/8")]),
                action: "act".into(),
                arguments: own(&[("port", "2"), ("idx", "10")]),
                label: Some("A".into()),
            }
        );
        assert_eq!(
            script.statements[1].1,
            Statement::Packet {
                port: 1,
                bytes: vec![0, 255],
            }
        );
        assert_eq!(
            script.statements[2].1,
            Statement::Expect {
                port: 2,
                nibbles: Some(vec![Some(0), None, Some(15)]),
                is_whole: true,
            }
        );
        assert!(matches!(
            script.statements[3].1,
            Statement::Expect { nibbles: None, .. }
        ));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_line() {
        for text in [
            "\nadd",
            "\npacket 1 0",
            "\nfoo",
            "\nexpect x",
            "\nadd t a:1",
            "\nadd t a:1 )b(",
            "\npacket 1 zz",
        ] {
            assert_eq!(Script::parse(text).expect_err(text).line, 2, "{text:?}");
        }
    }
}
