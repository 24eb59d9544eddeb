//! libnbd's and qemu's programs.

use super::served::{Served, have, path, run, some_file, ways};
use crate::common::Dir;

#[test]
fn nbdinfo_and_nbdcopy() {
    if !have("nbdinfo_and_nbdcopy", &["nbdinfo", "nbdcopy"]) {
        return;
    }
    for served in [
        Served::encrypted(8 << 20),
        Served::start(Dir::new(), &["--memory", "8M"]),
    ] {
        let info = run("nbdinfo", &["--json", &served.uri]);
        for expected in [
            "\"export-size\": 8388608",
            "\"can_multi_conn\": true",
            "\"can_fua\": true",
            "\"structured\": true",
        ] {
            assert!(info.contains(expected), "{expected}: {info}");
        }
        assert!(run("nbdinfo", &["--list", &served.uri]).contains("export="));
        run("nbdinfo", &["--map", &served.uri]);
        let original = some_file(&served.dir, 8 << 20);
        let back = served.dir.file("back");
        run("nbdcopy", &["--flush", path(&original), &served.uri]);
        run("nbdcopy", &[&served.uri, path(&back)]);
        assert!(std::fs::read(&original).unwrap() == std::fs::read(&back).unwrap());
        assert_eq!(served.stop(), 0);
    }
}

#[test]
fn nbdsh() {
    if !have("nbdsh", &["nbdsh"]) {
        return;
    }
    for way in ways() {
        script_of_nbdsh(&Served::encrypted_by(1 << 20, way));
    }
}

fn script_of_nbdsh(served: &Served) {
    let script = "
import errno
assert h.get_size() == 1 << 20 and h.can_multi_conn() and h.get_structured_replies_negotiated()
h.pwrite(b'x' * 4096, 8192, nbd.CMD_FLAG_FUA)
h.zero(1024, 8192)
h.trim(512, 0)
h.cache(65536, 0)
h.flush()
assert h.pread(4096, 8192) == b'\\0' * 1024 + b'x' * 3072
h.set_strict_mode(0)
for call, number in [(lambda: h.pread(512, 1 << 20), errno.EINVAL), (lambda: h.pwrite(b'y' * 512, 1 << 20), errno.ENOSPC),
                     (lambda: h.pread(511, 0), errno.EINVAL), (lambda: h.pwrite(b'z' * 100, 3), errno.EINVAL)]:
    try:
        call()
        raise SystemExit('not refused')
    except nbd.Error as error:
        assert error.errnum == number, error
buffers = [nbd.Buffer(65536) for _ in range(200)]
cookies = [h.aio_pread(b, 65536 * (n % 16)) for n, b in enumerate(buffers)]
while h.aio_in_flight() > 0:
    h.poll(-1)
assert all(h.aio_command_completed(c) for c in cookies)
print('all well')
";
    let said = run("nbdsh", &["-u", &served.uri, "-c", script]);
    assert!(said.contains("all well"), "{said}");
}

#[test]
fn qemu_img_and_qemu_io() {
    if !have("qemu_img_and_qemu_io", &["qemu-img", "qemu-io"]) {
        return;
    }
    let served = Served::encrypted(8 << 20);
    let original = some_file(&served.dir, 8 << 20);
    let raw = path(&original);
    run(
        "qemu-img",
        &["convert", "-n", "-f", "raw", "-O", "raw", raw, &served.uri],
    );
    run(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", raw, &served.uri],
    );
    let back = served.dir.file("back.qcow2");
    run(
        "qemu-img",
        &[
            "convert",
            "-f",
            "raw",
            "-O",
            "qcow2",
            &served.uri,
            path(&back),
        ],
    );
    run(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "qcow2", raw, path(&back)],
    );
    let commands = [
        "write -P 0xa5 1M 64k",
        "read -P 0xa5 1M 64k",
        "write -z 1M 32k",
        "read -P 0 1M 32k",
        "read -P 0xa5 1056k 32k",
        "aio_write -P 1 2M 1M",
        "aio_write -P 2 3M 1M",
        "aio_flush",
        "read -P 1 2M 1M",
        "read -P 2 3M 1M",
        "write -f -P 3 7M 1M",
        "discard 2M 1M",
        "flush",
        "read -P 3 7M 1M",
    ];
    let mut args = vec!["-f", "raw"];
    for command in &commands {
        args.extend(["-c", command]);
    }
    args.push(&served.uri);
    let said = run("qemu-io", &args);
    assert!(
        !said.contains("verification failed") && !said.contains("error"),
        "{said}"
    );
}
