// The loops for Go: what benches/peers/README.md says. `peer-go list`, or `peer-go PEER LOOP MODE [key=value]...`.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// options are those of a run.
type options struct {
	peer, lap, mode string
	issuers         int
	workers         int
	warmup          time.Duration
	time            time.Duration
	items           int
	spin            int
	samples         int
	period          time.Duration
	hogs            int
	spins           int
	batch           int
}

// A row is a loop and how the issuer learns of the end of an item.
type row struct{ lap, mode string }

var rows = []row{
	{"roundtrip", "channel"}, {"roundtrip", "unpinned"}, {"flood", "channel"}, {"window", "channel"},
	{"idle", "start"}, {"block", "channel"}, {"hogged", "start"}, {"stream", "end"},
}

var peers = []struct {
	name  string
	start func(workers int) pool
}{
	{"go-goroutines", func(int) pool { return goroutines{} }},
	{"go-channel", newChannelPool},
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "list" {
		for _, peer := range peers {
			for _, row := range rows {
				fmt.Printf("{\"peer\":\"%s\",\"version\":\"%s\",\"loop\":\"%s\",\"mode\":\"%s\"}\n",
					peer.name, runtime.Version(), row.lap, row.mode)
			}
		}
		return
	}
	options, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer-go:", err)
		os.Exit(2)
	}
	for _, peer := range peers {
		if peer.name == options.peer {
			line, err := run(peer.start(options.workers), options)
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", options.peer, err)
				os.Exit(3)
			}
			fmt.Println(line)
			return
		}
	}
	fmt.Fprintf(os.Stderr, "peer-go: no peer '%s'; see list\n", options.peer)
	os.Exit(2)
}

func parse(arguments []string) (*options, error) {
	if len(arguments) < 3 {
		return nil, fmt.Errorf("expected: list, or PEER LOOP MODE [key=value]...")
	}
	result := &options{
		peer: arguments[0], lap: arguments[1], mode: arguments[2],
		issuers: 1, workers: runtime.NumCPU(), warmup: 200 * time.Millisecond, time: time.Second,
		items: 200000, spin: 10000, samples: 1000, period: 2 * time.Millisecond,
		hogs: 8, spins: 50000, batch: 25,
	}
	known := false
	for _, row := range rows {
		known = known || row.lap == result.lap && row.mode == result.mode
	}
	if !known {
		return nil, fmt.Errorf("no mode '%s' of loop '%s'; see list", result.mode, result.lap)
	}
	for _, setting := range arguments[3:] {
		key, value, _ := strings.Cut(setting, "=")
		number, err := strconv.Atoi(value)
		if err != nil || number <= 0 {
			return nil, fmt.Errorf("'%s': expected key=value, the value a whole number above 0", setting)
		}
		switch key {
		case "issuers":
			result.issuers = number
		case "workers":
			result.workers = number
		case "warmup_ms":
			result.warmup = time.Duration(number) * time.Millisecond
		case "time_ms":
			result.time = time.Duration(number) * time.Millisecond
		case "items":
			result.items = number
		case "spin":
			result.spin = number
		case "samples":
			result.samples = number
		case "period_us":
			result.period = time.Duration(number) * time.Microsecond
		case "hogs":
			result.hogs = number
		case "spins":
			result.spins = number
		case "batch":
			result.batch = number
		default:
			return nil, fmt.Errorf("'%s': expected issuers, workers, warmup_ms, time_ms, items, spin, samples, period_us, hogs, spins or batch", key)
		}
	}
	return result, nil
}
