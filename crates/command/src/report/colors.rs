//! The palette in its light form; `style.css` has the same colours and their dark forms.
//!
//! The series colours are after Okabe and Ito, *Color Universal Design*, 2008, which most
//! people with a colour vision deficiency can tell apart. Yellow is darkened so that it shows
//! on white.

use plotters::style::RGBColor;

pub(super) const INK: RGBColor = RGBColor(0x1d, 0x24, 0x29);
pub(super) const FAINT: RGBColor = RGBColor(0x5b, 0x67, 0x70);
pub(super) const LINE: RGBColor = RGBColor(0xd5, 0xdb, 0xdf);
pub(super) const BAND: RGBColor = RGBColor(0xee, 0xf2, 0xf5);

const SERIES: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xb5, 0x89, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];

/// Number of series colours.
pub(super) const COUNT: usize = SERIES.len();

/// The colour of series number `place`; past the palette colours repeat, with another mark.
pub(super) fn series(place: usize) -> RGBColor {
    SERIES[place % SERIES.len()]
}

/// Its class in the style sheet.
pub(super) fn series_class(place: usize) -> String {
    format!("series-{}", place % SERIES.len() + 1)
}

/// The mark of a series in a legend.
pub(super) fn mark(place: usize) -> &'static str {
    match place / COUNT {
        0 => "■",
        1 => "▲",
        _ => "✕",
    }
}
