//! Names of Rust in both manglings.

mod shop {
    #[inline(never)]
    pub fn weigh_everything(items: &[String]) -> usize {
        items.iter().map(|item| item.chars().filter(|letter| letter.is_alphabetic()).count()).sum()
    }
}

fn main() {
    let items: Vec<String> = std::env::args().collect();
    println!("{}", shop::weigh_everything(&items));
}
