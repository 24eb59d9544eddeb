//! What is on the disk is what any other AES-XTS produces: the published vectors, and a second library.

use crate::common::{Dir, Random, key, pattern, seed, serve};
use aes::cipher::KeyInit;
use aes::{Aes128, Aes256};
use cmwq_nbd::cipher::Cipher;
use cmwq_nbd::key::Key;
use cmwq_nbd::store::FileStore;
use xts_mode::Xts128;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// IEEE 1619-2007, annex B: vector 4 (AES-128, data unit 0) and vector 10 (AES-256, data unit ff);
/// both of 512 bytes, which are 00 to ff twice.
const VECTORS: [(&str, u64, &str); 2] = [
    (
        "2718281828459045235360287471352631415926535897932384626433832795",
        0,
        include_str!("vectors/ieee1619-4.txt"),
    ),
    (
        "2718281828459045235360287471352662497757247093699959574966967627\
         3141592653589793238462643383279502884197169399375105820974944592",
        0xff,
        include_str!("vectors/ieee1619-10.txt"),
    ),
];

#[test]
fn the_published_vectors_hold() {
    let plain: Vec<u8> = (0..512).map(|n| n as u8).collect();
    for (key, sector, ciphered) in VECTORS {
        let cipher = Cipher::new(&Key::new(&hex(key)).unwrap(), 512, 1).unwrap();
        let mut out = vec![0; 512];
        cipher
            .encryptor()
            .copy(sector * 512, &plain, &mut out)
            .unwrap();
        assert_eq!(out, hex(ciphered), "sector {sector}");
        cipher.decryptor().in_place(sector * 512, &mut out).unwrap();
        assert_eq!(out, plain);
    }
}

/// What another library makes of `data` at `offset`: sectors of `size` bytes, vectors counted in 512 bytes.
fn second_opinion(key: &[u8], size: usize, offset: u64, data: &mut [u8]) {
    fn each(size: usize, offset: u64, data: &mut [u8], cipher: impl Fn(&mut [u8], [u8; 16])) {
        for (n, sector) in data.chunks_mut(size).enumerate() {
            let number = u128::from((offset + (n * size) as u64) / 512);
            cipher(sector, number.to_le_bytes());
        }
    }
    let (one, two) = key.split_at(key.len() / 2);
    if key.len() == 32 {
        let xts = Xts128::new(
            Aes128::new_from_slice(one).unwrap(),
            Aes128::new_from_slice(two).unwrap(),
        );
        each(size, offset, data, |sector, vector| {
            xts.encrypt_sector(sector, vector.into())
        });
    } else {
        let xts = Xts128::new(
            Aes256::new_from_slice(one).unwrap(),
            Aes256::new_from_slice(two).unwrap(),
        );
        each(size, offset, data, |sector, vector| {
            xts.encrypt_sector(sector, vector.into())
        });
    }
}

fn key_bytes(length: usize) -> Vec<u8> {
    // As `crate::common::key` makes them.
    (0..length as u8)
        .map(|n| n.wrapping_mul(37) ^ 0x5a)
        .collect()
}

#[test]
fn a_second_library_agrees_on_every_sector() {
    let mut random = Random::new(seed("disk_format"));
    for key_length in [32, 64] {
        for size in [512, 4096] {
            let cipher = Cipher::new(&key(key_length), size, 2).unwrap();
            for _ in 0..20 {
                // Also numbers that need more than 32 bits.
                let offset = (random.bits() >> random.below(40)) / size as u64 / 2 * size as u64;
                let plain: Vec<u8> = (0..size * 3).map(|_| random.bits() as u8).collect();
                let mut expected = plain.clone();
                second_opinion(&key_bytes(key_length), size, offset, &mut expected);
                let mut ours = vec![0; plain.len()];
                cipher.encryptor().copy(offset, &plain, &mut ours).unwrap();
                assert!(ours == expected, "copied: {key_length} {size} {offset}");
                cipher.decryptor().in_place(offset, &mut ours).unwrap();
                assert!(
                    ours == plain,
                    "deciphered in place: {key_length} {size} {offset}"
                );
                cipher.encryptor().in_place(offset, &mut ours).unwrap();
                assert!(ours == expected, "in place: {key_length} {size} {offset}");
                let mut back = vec![0; plain.len()];
                cipher.decryptor().copy(offset, &ours, &mut back).unwrap();
                assert!(back == plain, "deciphered: {key_length} {size} {offset}");
            }
        }
    }
}

#[test]
fn the_file_holds_what_the_second_library_says() {
    for (key_length, sector) in [(32, 512), (64, 512), (64, 4096)] {
        let dir = Dir::new();
        let path = dir.file("image");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let store = FileStore::open(&path, false, sector).unwrap();
        let cipher = Cipher::new(&key(key_length), sector as usize, 2).unwrap();
        let server = serve(Box::new(store), Some(cipher), false);
        let offset = 3 * 4096;
        let data = pattern(offset, 200 << 10, 9);
        server.client().write(offset, &data).unwrap();
        assert!(server.client().read(offset, 200 << 10).unwrap() == data);
        drop(server);
        let mut expected = data;
        second_opinion(
            &key_bytes(key_length),
            sector as usize,
            offset,
            &mut expected,
        );
        let file = std::fs::read(&path).unwrap();
        let range = offset as usize..offset as usize + expected.len();
        assert!(file[range.clone()] == expected, "{key_length} {sector}");
        let others = file[..range.start].iter().chain(&file[range.end..]);
        assert!(
            others.into_iter().all(|&byte| byte == 0),
            "nothing else is touched"
        );
    }
}

#[test]
fn keys_of_other_lengths_and_with_equal_halves_are_refused() {
    for length in [0, 16, 31, 33, 48, 63, 65] {
        let error = Key::new(&vec![1; length]).unwrap_err().to_string();
        assert!(error.contains(&format!("{length} bytes")), "{error}");
        assert!(error.contains("32 bytes (256 bits) or 64 bytes"), "{error}");
    }
    for length in [32, 64] {
        let error = Key::new(&vec![0xab; length]).unwrap_err().to_string();
        assert!(error.contains("halves"), "{error}");
    }
    assert_eq!(format!("{:?}", key(64)), "Key(512 bits)");
}
