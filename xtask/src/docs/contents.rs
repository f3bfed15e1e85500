//! The contents of the site: the front page, the guide in the order of its own contents, then the other pages.

use std::fmt::Write as _;

use crate::links::{Page, links, resolved};

/// The page with the contents of the guide.
const GUIDE: &str = "docs/guide/README.md";

/// The parts behind the guide: their pages, or the folders of these, in their order. Other pages stand in the last one.
const PARTS: [(&str, &[&str]); 3] = [
    ("Promises", &["GUARANTEES.md", "docs/guarantees/"]),
    ("Reference", &["docs/command.md", "docs/server.md", "docs/mixed-fleets.md", "docs/performance.md", "docs/"]),
    ("The project", &["CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"]),
];

/// The file `SUMMARY.md` of mdBook.
pub(super) fn summary(pages: &[&Page]) -> String {
    let mut left: Vec<&Page> = pages.to_vec();
    let mut summary = "# Summary\n\n".to_owned();
    let mut take = |summary: &mut String, is_wanted: &dyn Fn(&str) -> bool, before: &str| {
        let (taken, others): (Vec<_>, Vec<_>) = left.drain(..).partition(|page| is_wanted(&page.path));
        left = others;
        for page in taken {
            writeln!(summary, "{before}[{}]({})", title(page), page.path).expect("a text can be written");
        }
    };
    take(&mut summary, &|path| path == "README.md", "");
    let guide = pages.iter().find(|page| page.path == GUIDE);
    let listed = guide.map(|guide| links(&guide.text)).unwrap_or_default();
    summary.push_str("\n# The guide\n\n");
    take(&mut summary, &|path| path == GUIDE, "- ");
    for link in &listed {
        if let Some((wanted, _)) = resolved(GUIDE, &link.target).filter(|(path, _)| path.starts_with("docs/guide/")) {
            take(&mut summary, &|path| path == wanted, "- ");
        }
    }
    for (part, wanted) in PARTS {
        write!(summary, "\n# {part}\n\n").expect("a text can be written");
        for wanted in wanted {
            take(&mut summary, &|path| path == *wanted || wanted.ends_with('/') && path.starts_with(wanted), "- ");
        }
    }
    take(&mut summary, &|_| true, "- ");
    summary
}

/// The heading of a page, without what has a meaning in a link.
fn title(page: &Page) -> String {
    let heading = page.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(&page.path);
    heading.chars().filter(|mark| !matches!(mark, '[' | ']' | '`')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_stands_in_the_order_of_its_contents_and_no_page_is_left_out() {
        let page = |path: &str, text: &str| Page { path: path.to_owned(), text: text.to_owned() };
        let pages = [
            page("GUARANTEES.md", "# Guarantees\n"),
            page("README.md", "# Lockkeeper\n"),
            page("docs/guide/README.md", "# Guide\n[two](two.md) [one](one.md) [else](../../GUARANTEES.md)\n"),
            page("docs/guide/one.md", "# One `x`\n"),
            page("docs/guide/two.md", "# Two\n"),
            page("docs/other.md", "no heading\n"),
        ];
        let summary = summary(&pages.iter().collect::<Vec<_>>());
        assert_eq!(
            summary,
            "# Summary\n\n[Lockkeeper](README.md)\n\n# The guide\n\n- [Guide](docs/guide/README.md)\n\
             - [Two](docs/guide/two.md)\n- [One x](docs/guide/one.md)\n\n# Promises\n\n- [Guarantees](GUARANTEES.md)\n\
             \n# Reference\n\n- [docs/other.md](docs/other.md)\n\n# The project\n\n"
        );
    }
}
