//! Files through async-fs, whose `blocking` is ours: scripts/dropins compiles this beside it.

use async_fs::{File, OpenOptions};
use futures_lite::future::block_on;
use futures_lite::prelude::*;
use std::io::{self, SeekFrom};
use std::path::PathBuf;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("async-fs-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_written_is_read() -> io::Result<()> {
    let folder = Folder::new("written");
    let path = folder.0.join("file");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    block_on(async {
        let mut file = File::create(&path).await?;
        file.write_all(&bytes).await?;
        file.sync_all().await?;
        assert_eq!(file.metadata().await?.len(), bytes.len() as u64);
        drop(file);
        assert!(async_fs::read(&path).await? == bytes);
        let mut read = Vec::new();
        File::open(&path).await?.read_to_end(&mut read).await?;
        assert!(read == bytes);
        Ok(())
    })
}

#[test]
fn one_handle_reads_writes_and_seeks() -> io::Result<()> {
    let folder = Folder::new("seeks");
    let path = folder.0.join("file");
    block_on(async {
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .open(&path)
            .await?;
        file.write_all(b"0123456789").await?;
        assert_eq!(file.seek(SeekFrom::Start(2)).await?, 2);
        let mut three = [0; 3];
        file.read_exact(&mut three).await?;
        assert_eq!(&three, b"234");
        // What was read ahead does not move it.
        file.write_all(b"xy").await?;
        assert_eq!(file.seek(SeekFrom::Current(0)).await?, 7);
        file.flush().await?;
        file.set_len(8).await?;
        file.close().await?;
        assert_eq!(async_fs::read_to_string(&path).await?, "01234xy7");
        Ok(())
    })
}

#[test]
fn folders_links_and_names() -> io::Result<()> {
    let folder = Folder::new("names");
    let base = &folder.0;
    block_on(async {
        async_fs::create_dir_all(base.join("a/b")).await?;
        for i in 0..200 {
            async_fs::write(base.join(format!("a/{i}")), [i as u8]).await?;
        }
        let mut entries = async_fs::read_dir(base.join("a")).await?;
        let mut files = 0;
        while let Some(entry) = entries.try_next().await? {
            files += usize::from(entry.file_type().await?.is_file());
        }
        assert_eq!(files, 200);
        async_fs::rename(base.join("a/7"), base.join("seven")).await?;
        assert_eq!(
            async_fs::copy(base.join("seven"), base.join("copy")).await?,
            1
        );
        async_fs::unix::symlink("copy", base.join("link")).await?;
        assert_eq!(async_fs::read(base.join("link")).await?, [7]);
        let gone = async_fs::metadata(base.join("a/7")).await.unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        async_fs::remove_dir_all(base.join("a")).await?;
        assert!(async_fs::metadata(base.join("a")).await.is_err());
        Ok(())
    })
}
