//! Data and tokens in one file.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use lockkeeper::Hold;
use lockkeeper::fence::{FencedFile, Seen};

use crate::rounds::{LOCK, judge, play, steps, tokens};

#[tokio::test]
async fn an_overtaken_holder_writes_no_fenced_file_and_some_others() {
    let place = tempfile::TempDir::new().unwrap();
    let url = format!("file:{}", place.path().join("locks").display());
    let keepers = [lockkeeper::connect(url.as_str()).unwrap(), lockkeeper::connect(url.as_str()).unwrap()];
    let (fenced, plain) = (FencedFile::new(place.path().join("fenced")), place.path().join("plain"));

    play(keepers.each_ref(), async |hold: &Hold, pause| {
        steps(pause).await;
        let token = hold.fencing_token();
        let append = |data: Option<&[u8]>| [data.unwrap_or_default(), format!("{token}\n").as_bytes()].concat();
        fenced.update(hold.name(), token, append).unwrap() == Seen::Passes
    })
    .await;
    play(keepers.each_ref(), async |hold: &Hold, pause| {
        steps(pause).await;
        let mut file = OpenOptions::new().create(true).append(true).open(&plain).unwrap();
        writeln!(file, "{}", hold.fencing_token()).unwrap();
        true
    })
    .await;
    let written = String::from_utf8(fenced.read().unwrap().unwrap()).unwrap();
    judge("file", &tokens(written.lines()), &tokens(fs::read_to_string(&plain).unwrap().lines()));
    assert!(keepers[0].contenders(LOCK).await.unwrap().is_empty());
}
