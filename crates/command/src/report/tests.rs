use super::*;

fn picture() -> Lines {
    let points = |scale: f64| {
        (0..50)
            .map(|x| (f64::from(x), scale * f64::from(x)))
            .collect()
    };
    let series = |name: &str, shape, scale| Series {
        name: name.to_owned(),
        shape,
        points: points(scale),
    };
    Lines {
        caption: "growth <fast>".to_owned(),
        note: "Made up.".to_owned(),
        x: Axis::linear("day", Unit::Count),
        y: Axis::logarithmic("time", Unit::Nanoseconds),
        series: vec![series("a", Shape::Line, 1e3), series("b", Shape::Dots, 2e4)],
        bands: vec![Band {
            name: "rain".to_owned(),
            from: 10.0,
            to: 20.0,
        }],
    }
}

fn report() -> Report {
    let mut report = Report::new("A & B");
    report.text("run `thalweg` & see <this>");
    report.list(&["one".to_owned()]);
    report.lines(&picture()).expect("it can be drawn");
    let bars = Bars {
        caption: "shares".to_owned(),
        note: String::new(),
        axis: Axis::linear("share", Unit::Share),
        categories: vec!["x".to_owned(), "y".to_owned()],
        series: vec![
            ("p".to_owned(), vec![0.2, 0.8]),
            ("q".to_owned(), vec![0.8, 0.2]),
        ],
        is_stacked: true,
    };
    report.bars(&bars).expect("it can be drawn");
    report
}

#[test]
fn a_page_stands_on_its_own() {
    let html = report().to_html();
    let without_names = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for foreign in ["http:", "https:", "<script", "src=", "@import", "url("] {
        assert!(!without_names.contains(foreign), "{foreign}");
    }
    assert_eq!(html.matches("<svg role=\"img\" aria-label=").count(), 2);
}

#[test]
fn texts_are_escaped() {
    let html = report().to_html();
    assert!(html.contains("<h1>A &amp; B</h1>"));
    assert!(html.contains("run <code>thalweg</code> &amp; see &lt;this&gt;"));
    assert!(html.contains("<figcaption>growth &lt;fast&gt;</figcaption>"));
}

#[test]
fn the_style_sheet_knows_every_color_of_the_pictures() {
    let html = report().to_html();
    let style = include_str!("style.css");
    for attribute in ["fill=\"#", "stroke=\"#"] {
        for (place, _) in html.match_indices(attribute) {
            let end = place + attribute.len() + 7;
            let named = &html[place..end];
            assert!(style.contains(&format!("svg [{named}]")), "{named}");
        }
    }
}
