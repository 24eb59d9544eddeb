module cmwq.example/peers

go 1.19
