//! Writes files of pictures: one picture, or a page with all of them and the tables.

use std::path::Path;

use anyhow::Result;

use thalweg_command::failure::bad_input;
use thalweg_command::output::write_text;
use thalweg_command::report::{Lines, Report, Table};

/// Fails early if a picture's file cannot be written.
///
/// # Errors
/// If the name is not that of a picture or page, or its folder is missing.
pub(crate) fn check(path: &Path) -> Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let has_folder = folder.is_none_or(Path::is_dir);
    let path = path.display();
    if !has_folder {
        return Err(bad_input(format!(
            "--plot: {path} is in no existing folder; make it, or name another"
        )));
    }
    if !is_page(path.to_string().as_ref()) && !is_picture(path.to_string().as_ref()) {
        return Err(bad_input(format!(
            "--plot: {path} is neither a picture nor a page; name a file .svg or .html"
        )));
    }
    Ok(())
}

fn is_page(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "html")
}

fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "svg")
}

/// Writes the first picture, or a page with all of them and the tables.
///
/// # Errors
/// If it cannot be drawn or written.
pub(crate) fn write(
    path: &Path,
    title: &str,
    setting: &str,
    pictures: &[Lines],
    tables: &[&Table],
) -> Result<()> {
    if is_picture(path)
        && let Some(picture) = pictures.first()
    {
        return write_text(path, &picture.to_file()?);
    }
    let mut report = Report::new(title);
    report.text(setting);
    for picture in pictures {
        report.lines(picture)?;
    }
    for table in tables {
        report.table(table);
    }
    report.write(path)
}
