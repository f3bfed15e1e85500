//! Pictures of pages in a browser.

use std::time::Duration;

use lockkeeper_faults::browser::Browser;
use lockkeeper_faults::{Error, Result, wait};
use tempfile::NamedTempFile;

use crate::cells;

/// How long a page may take until all that it is to show is on it.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// A picture of the monitor's page.
pub(crate) struct Picture {
    /// The name of its file.
    pub(crate) name: &'static str,
    path: &'static str,
    scheme: &'static str,
    width: u32,
    /// At most: a page that is shorter has a picture of its height.
    height: u32,
    /// What returns whether all is there.
    is_shown: &'static str,
}

/// The list: a deadlock with its picture, and a lock that four makes of contenders want.
const LIST_IS_SHOWN: &str = "return document.querySelector('.problem:not(.mild) svg.pic') !== null
    && document.body.textContent.includes('nightly-backup') && document.getElementById('live').textContent === 'live'";

const QUEUE_IS_SHOWN: &str = "return document.querySelectorAll('#queue tbody tr').length === 5
    && document.getElementById('live').textContent === 'live'";

pub(crate) const PICTURES: &[Picture] = &[
    Picture { name: "page", path: "", scheme: "light", width: 1_200, height: 1_400, is_shown: LIST_IS_SHOWN },
    Picture { name: "page-dark", path: "", scheme: "dark", width: 1_200, height: 1_400, is_shown: LIST_IS_SHOWN },
    Picture { name: "page-telephone", path: "", scheme: "light", width: 390, height: 844, is_shown: LIST_IS_SHOWN },
    Picture {
        name: "page-lock",
        path: "lock?name=nightly-backup",
        scheme: "light",
        width: 1_200,
        height: 1_200,
        is_shown: QUEUE_IS_SHOWN,
    },
];

impl Picture {
    /// Takes it of the monitor that is at this URL.
    pub(crate) async fn take(&self, browser: &Browser, at: &str) -> Result<Vec<u8>> {
        browser.resize(self.width, self.height)?;
        browser.prefer(self.scheme)?;
        // Rows keep their places on a page that is open. Once all is known it is opened again, to have them in order.
        for _ in 0..2 {
            browser.open(&format!("{at}/{}", self.path))?;
            let is_shown = async || browser.run(self.is_shown).is_ok_and(|shown| shown == true).then_some(());
            wait::until(&format!("all of the picture {}", self.name), SHOWN_WITHIN, is_shown).await?;
        }
        let (_, height) = size(browser, "html")?;
        browser.resize(self.width, self.height.min(height))?;
        browser.picture()
    }
}

/// How wide and high an element is, in whole pixels.
fn size(browser: &Browser, selector: &str) -> Result<(u32, u32)> {
    let size = browser.run(&format!(
        "const {{ width, height }} = document.querySelector('{selector}').getBoundingClientRect();
        return [Math.ceil(width), Math.ceil(height)]"
    ))?;
    let pixels = |at: usize| size[at].as_u64().and_then(|pixels| u32::try_from(pixels).ok());
    pixels(0).zip(pixels(1)).ok_or_else(|| Error::new(format!("{selector} has the size {size}")))
}

/// Takes a picture of a terminal's screen.
pub(crate) fn of_terminal(browser: &Browser, screen: &str) -> Result<Vec<u8>> {
    let file = NamedTempFile::with_suffix(".html").map_err(Error::io("a temporary file"))?;
    std::fs::write(file.path(), cells::page(screen)).map_err(Error::io(file.path().display()))?;
    browser.open(&format!("file://{}", file.path().display()))?;
    let (width, height) = size(browser, "pre")?;
    browser.resize(width, height)?;
    browser.picture()
}
