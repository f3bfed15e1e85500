//! Data and tokens in one file.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use lockkeeper::Hold;
use lockkeeper::fence::{FencedFile, Seen};

use crate::rounds::{LOCK, compare, ledger, steps, tokens};

#[tokio::test]
async fn an_overtaken_holder_writes_no_fenced_file_and_some_others() {
    let place = tempfile::TempDir::new().unwrap();
    let url = format!("file:{}", place.path().join("locks").display());
    let keepers = [lockkeeper::connect(url.as_str()).unwrap(), lockkeeper::connect(url.as_str()).unwrap()];
    let [fenced, plain] = [true, false].map(|is_fenced| place.path().join(ledger(is_fenced)));
    let file = FencedFile::new(&fenced);
    let write = async |hold: &Hold, pause, is_fenced| {
        steps(pause).await;
        let line = format!("{}\n", hold.fencing_token());
        if is_fenced {
            let append = |data: Option<&[u8]>| [data.unwrap_or_default(), line.as_bytes()].concat();
            return file.update(hold.name(), hold.fencing_token(), append).unwrap() == Seen::Passes;
        }
        OpenOptions::new().create(true).append(true).open(&plain).unwrap().write_all(line.as_bytes()).unwrap();
        true
    };
    let written = async |is_fenced| {
        let data = if is_fenced { file.read().unwrap().unwrap() } else { fs::read(&plain).unwrap() };
        tokens(String::from_utf8(data).unwrap().lines())
    };
    compare("file", &keepers, write, written).await;
    assert!(keepers[0].contenders(LOCK).await.unwrap().is_empty());
}
