//! The files of the page, which are part of the program.

/// A file: its path, its type, and what it has.
pub(crate) type PageFile = (&'static str, &'static str, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const FILES: [PageFile; 11] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/icon.svg", SVG, include_str!("page/icon.svg")),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/ask.js", SCRIPT, include_str!("page/ask.js")),
    ("/rates.js", SCRIPT, include_str!("page/rates.js")),
    ("/draw.js", SCRIPT, include_str!("page/draw.js")),
    ("/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/graph.js", SCRIPT, include_str!("page/graph.js")),
    ("/lists.js", SCRIPT, include_str!("page/lists.js")),
    ("/explain.js", SCRIPT, include_str!("page/explain.js")),
];

/// The file with this path.
pub(crate) fn find(path: &str) -> Option<&'static PageFile> {
    FILES.iter().find(|(known, ..)| *known == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_no_file_but_those_that_are_here() {
        for (path, kind, text) in FILES {
            for other in ["http://", "https://", "//cdn"] {
                // The name of SVG's elements is no address that is asked.
                let text = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(other), "{path} has {other}");
            }
            let named = text.split(['"', '\'']).filter_map(|part| {
                let part = part.strip_prefix("./").or(part.strip_prefix('/'))?;
                let is_file = [".js", ".css", ".svg"]
                    .iter()
                    .any(|end| part.ends_with(end));
                is_file.then(|| format!("/{part}"))
            });
            for named in named {
                assert!(find(&named).is_some(), "{path} names {named}");
            }
            assert!(kind != HTML || text.contains("/main.js"), "{path}");
        }
    }
}
