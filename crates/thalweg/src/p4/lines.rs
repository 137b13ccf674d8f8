//! Splits an untrusted input into lines.
//!
//! A pipe may deliver anything, including a line that never ends. A line that cannot be used
//! is reported as an error, and the next one is read; no line is dropped silently.

use std::io::{BufRead, Read};

/// Longest line.
pub(super) const LINE_BYTES_MAX: usize = 65_536;

/// Iterates over the lines of an input, without their ends, or their errors.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    number: u64,
    has_failed: bool,
}

impl<R: BufRead> Lines<R> {
    /// Creates an iterator over the rest of the input.
    pub(super) fn new(input: R) -> Lines<R> {
        Lines {
            input,
            number: 0,
            has_failed: false,
        }
    }

    /// The next line, with its end unless it is the last or too long.
    fn read(&mut self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut some = self.input.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        some.read_until(b'\n', &mut bytes)?;
        if bytes.len() > LINE_BYTES_MAX && !bytes.ends_with(b"\n") {
            self.input.skip_until(b'\n')?;
        }
        Ok(bytes)
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<String, String>;

    fn next(&mut self) -> Option<Result<String, String>> {
        if self.has_failed {
            return None;
        }
        self.number += 1;
        let number = self.number;
        let wrong = |what: String| Some(Err(format!("line {number} of the input: {what}")));
        let mut bytes = match self.read() {
            Ok(bytes) if bytes.is_empty() => return None,
            Ok(bytes) => bytes,
            Err(error) => {
                self.has_failed = true;
                return wrong(format!("{error}; no more is read"));
            }
        };
        match bytes.last() {
            Some(b'\n') => drop(bytes.pop()),
            _ if bytes.len() > LINE_BYTES_MAX => {
                return wrong(format!("it has more than {LINE_BYTES_MAX} bytes"));
            }
            _ => {}
        }
        match String::from_utf8(bytes) {
            Ok(line) => Some(Ok(line)),
            Err(error) => wrong(format!("{error}; write it anew in UTF-8")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader};

    use super::*;

    fn lines(input: &[u8]) -> Vec<Result<String, String>> {
        // A small buffer splits the lines into pieces.
        Lines::new(BufReader::with_capacity(7, input)).collect()
    }

    #[test]
    fn what_is_no_text_is_told_and_the_next_line_is_read() {
        let told = lines(b"one\n\ntable_add \xff here\nlast");
        assert_eq!(told.len(), 4, "{told:?}");
        assert_eq!(told[0], Ok("one".to_owned()));
        assert_eq!(told[1], Ok(String::new()));
        let problem = told[2].as_ref().expect_err("not UTF-8");
        assert!(problem.starts_with("line 3 of the input"), "{problem}");
        assert!(problem.contains("index 10"), "{problem}");
        assert_eq!(told[3], Ok("last".to_owned()));
    }

    #[test]
    fn a_line_has_an_end() {
        let mut input = vec![b'x'; LINE_BYTES_MAX];
        input.push(b'\n');
        input.extend(vec![b'y'; 3 * LINE_BYTES_MAX]);
        input.extend(b"\nnext\n");
        let told = lines(&input);
        assert_eq!(told.len(), 3);
        assert_eq!(told[0].as_ref().map(String::len), Ok(LINE_BYTES_MAX));
        let problem = told[1].as_ref().expect_err("too long");
        assert!(problem.contains("more than 65536 bytes"), "{problem}");
        assert_eq!(told[2], Ok("next".to_owned()));
        // The last line is too long.
        let told = lines(&vec![b'z'; LINE_BYTES_MAX + 1]);
        assert!(told.len() == 1 && told[0].is_err());
    }

    #[test]
    fn an_input_that_fails_is_told_once() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("it is broken"))
            }
        }
        let told: Vec<_> = Lines::new(BufReader::new(Broken)).collect();
        assert_eq!(told.len(), 1);
        let problem = told[0].as_ref().expect_err("broken");
        assert!(
            problem.contains("it is broken; no more is read"),
            "{problem}"
        );
    }
}
