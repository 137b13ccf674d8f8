//! Numbers as they are shown: at most five characters, so that columns stay.

/// A count or a rate: `0`, `1.2`, `123`, `1.23k`, `12.3M`.
pub(crate) fn short(value: f64) -> String {
    if value < 0.05 {
        return "0".to_owned();
    }
    if value < 9.95 {
        return format!("{value:.1}");
    }
    if value < 999.5 {
        return format!("{value:.0}");
    }
    let mut scaled = value;
    for unit in ["k", "M", "G", "T"] {
        scaled /= 1_000.0;
        if scaled < 9.995 {
            return format!("{scaled:.2}{unit}");
        }
        if scaled < 99.95 {
            return format!("{scaled:.1}{unit}");
        }
        if scaled < 999.5 {
            return format!("{scaled:.0}{unit}");
        }
    }
    "many".to_owned()
}

/// A count of things: whole below a thousand.
pub(crate) fn count(value: u64) -> String {
    match value {
        0..1_000 => value.to_string(),
        _ => short(value as f64),
    }
}

/// A share in percent: `100`, `99.3`, `0.02`; `-` if there was nothing to share.
pub(crate) fn percent(share: Option<f64>) -> String {
    match share.map(|share| share * 100.0) {
        None => "-".to_owned(),
        Some(value) if value >= 99.95 => "100".to_owned(),
        Some(value) if value >= 9.995 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// A time: `12us`, `1.2ms`, `3.0s`.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.000_999_5 => format!("{:.0}us", seconds * 1e6),
        seconds if seconds < 0.009_995 => format!("{:.1}ms", seconds * 1e3),
        seconds if seconds < 0.999_5 => format!("{:.0}ms", seconds * 1e3),
        seconds => format!("{seconds:.1}s"),
    }
}

/// The time since a start: `12 s`, `3:25`, `5:00:01`, `3 d 5 h`.
pub(crate) fn age(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes}:{:02}", seconds % 60),
        (0, _, _) => format!("{hours}:{:02}:{:02}", minutes % 60, seconds % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Values as a row of `width` bars, the newest at the right; the highest bar is `top`.
pub(crate) fn bars(
    values: impl DoubleEndedIterator<Item = Option<f64>>,
    top: f64,
    width: usize,
) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let of = |value: Option<f64>| match value {
        None => '·',
        Some(value) if value <= 0.0 || top <= 0.0 => BARS[0],
        // A value above zero is seen.
        Some(value) => BARS[((value / top * 8.0).round() as usize).clamp(1, 8)],
    };
    let newest: Vec<char> = values.rev().take(width).map(of).collect();
    let blank = std::iter::repeat_n(' ', width - newest.len());
    blank.chain(newest.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_size() {
        let shown = [
            (0.0, "0"),
            (0.06, "0.1"),
            (9.94, "9.9"),
            (9.96, "10"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (9_994.0, "9.99k"),
            (9_996.0, "10.0k"),
            (99_960.0, "100k"),
            (999_600.0, "1.00M"),
            (12_345_678.0, "12.3M"),
        ];
        for (value, text) in shown {
            assert_eq!(short(value), text);
        }
        let mut value = 0.001;
        while value < 1e14 {
            let text = short(value);
            assert!(text.len() <= 5, "{text}");
            let unit = text.chars().last().and_then(|unit| "kMGT".find(unit));
            let digits = text.trim_end_matches(['k', 'M', 'G', 'T']);
            let read: f64 = digits.parse().expect("a number");
            let read = read * 1_000_f64.powi(unit.map_or(0, |place| place as i32 + 1));
            assert!(
                (read - value).abs() <= (value * 0.06).max(0.051),
                "{value}: {text}"
            );
            value *= 1.07;
        }
    }

    #[test]
    fn counts_are_whole() {
        assert_eq!([0, 7, 999, 1_000].map(count), ["0", "7", "999", "1.00k"]);
    }

    #[test]
    fn shares_times_and_ages_have_units() {
        assert_eq!(percent(None), "-");
        assert_eq!(percent(Some(0.0)), "0.00");
        assert_eq!(percent(Some(0.9994)), "99.9");
        assert_eq!(percent(Some(1.0)), "100");
        assert_eq!(
            [time(0.000_012), time(0.0012), time(0.5), time(3.0)],
            ["12us", "1.2ms", "500ms", "3.0s"]
        );
        assert_eq!(
            [age(12.9), age(205.0), age(18_001.0), age(277_200.0)],
            ["12 s", "3:25", "5:00:01", "3 d 5 h"]
        );
    }

    #[test]
    fn bars_end_at_the_newest_value() {
        let values = [Some(0.0), Some(0.01), None, Some(0.5), Some(1.0)];
        assert_eq!(bars(values.into_iter(), 1.0, 7), "   ▁·▄█");
        assert_eq!(bars(values.into_iter(), 1.0, 2), "▄█");
        assert_eq!(bars(values.into_iter(), 0.0, 1), " ");
    }
}
