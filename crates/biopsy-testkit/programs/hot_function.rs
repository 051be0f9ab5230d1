//! Sick, in Rust: burns one CPU in `PackageVerifier::compute_checksum_bit_by_bit`, called through a trait object and a
//! closure, so that demangled names of each kind occur in its stacks.

use std::hint::black_box;
use std::io::Read;

trait Verifier {
    fn verify(&self, bytes: &[u8]) -> u32;
}

struct PackageVerifier {
    polynomial: u32,
}

impl PackageVerifier {
    #[inline(never)]
    fn compute_checksum_bit_by_bit(&self, bytes: &[u8]) -> u32 {
        let mut checksum = u32::MAX;
        for byte in bytes {
            checksum ^= u32::from(*byte);
            for _ in 0..8 {
                checksum = (checksum >> 1) ^ (self.polynomial & (checksum & 1).wrapping_neg());
            }
        }
        black_box(!checksum)
    }
}

impl Verifier for PackageVerifier {
    #[inline(never)]
    fn verify(&self, bytes: &[u8]) -> u32 {
        black_box(self.compute_checksum_bit_by_bit(bytes)) | 1
    }
}

fn main() {
    // Nobody reads stdin's bytes; its end is the order to end. Ten minutes is the limit of a forgotten program.
    std::thread::Builder::new()
        .name("stdin-watcher".to_owned())
        .spawn(|| {
            let mut byte = [0];
            while matches!(std::io::stdin().read(&mut byte), Ok(1)) {}
            std::process::exit(0);
        })
        .expect("a thread can be started");
    let package: Vec<u8> = (0..64 * 1024_u32).map(|i| i.wrapping_mul(31) as u8).collect();
    let verifier: Box<dyn Verifier> = black_box(Box::new(PackageVerifier { polynomial: 0xedb8_8320 }));
    println!("READY {}", std::process::id());
    let start = std::time::Instant::now();
    let verify_package = || black_box(verifier.verify(black_box(&package)));
    while start.elapsed().as_secs() < 600 {
        verify_package();
    }
    std::process::exit(3);
}
