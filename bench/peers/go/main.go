// quickfixgo as an acceptor of the common client: `go_acceptor OPTION...`. The options are in
// ../README.md.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quickfixgo/quickfix"
	"github.com/quickfixgo/quickfix/store/file"
)

// options are those of the contract that quickfixgo can serve, with their defaults.
var options = map[string]string{
	"sessions":   "1",
	"store":      "memory",
	"validate":   "yes",
	"dictionary": "",
	"answer":     "report",
	"mode":       "default",
}

// choices are the values that an option may have.
var choices = map[string][]string{
	"validate": {"yes", "no"},
	"answer":   {"report", "echo"},
	"mode":     {"default"},
}

func readOptions(arguments []string) error {
	for len(arguments) > 0 {
		name, ok := strings.CutPrefix(arguments[0], "--")
		if _, known := options[name]; !ok || !known {
			return fmt.Errorf("no option %s", arguments[0])
		}
		if len(arguments) < 2 {
			return fmt.Errorf("%s needs a value", arguments[0])
		}
		value := arguments[1]
		if allowed, ok := choices[name]; ok && !slices.Contains(allowed, value) {
			return fmt.Errorf("--%s is one of %s", name, strings.Join(allowed, ", "))
		}
		options[name], arguments = value, arguments[2:]
	}
	if n, err := strconv.Atoi(options["sessions"]); err != nil || n < 1 {
		return errors.New("--sessions is a number above 0")
	}
	if options["validate"] == "yes" && options["dictionary"] == "" {
		return errors.New("--validate yes needs --dictionary FILE")
	}
	return nil
}

// venue answers each NewOrderSingle(D).
type venue struct {
	echo   bool
	orders atomic.Int64
}

func (*venue) OnCreate(quickfix.SessionID)                       {}
func (*venue) OnLogon(quickfix.SessionID)                        {}
func (*venue) OnLogout(quickfix.SessionID)                       {}
func (*venue) ToAdmin(*quickfix.Message, quickfix.SessionID)     {}
func (*venue) ToApp(*quickfix.Message, quickfix.SessionID) error { return nil }
func (*venue) FromAdmin(*quickfix.Message, quickfix.SessionID) quickfix.MessageRejectError {
	return nil
}

// FromApp is called with a message that the session has taken.
func (v *venue) FromApp(
	order *quickfix.Message, id quickfix.SessionID,
) quickfix.MessageRejectError {
	answer := quickfix.NewMessage()
	if v.echo {
		answer.Header.SetString(35, "D")
		order.Body.CopyInto(&answer.Body.FieldMap)
	} else if err := v.report(order, answer); err != nil {
		return err
	}
	if err := quickfix.SendToTarget(answer, id); err != nil {
		fail(err)
	}
	return nil
}

// report reads the order's fields with their types, and fills its ExecutionReport(8).
func (v *venue) report(order, report *quickfix.Message) quickfix.MessageRejectError {
	for _, tag := range []quickfix.Tag{49, 56} {
		if _, err := order.Header.GetString(tag); err != nil {
			return err
		}
	}
	ordType, err := order.Body.GetString(40)
	if err != nil {
		return err
	}
	// ClOrdID, Symbol, Side, and Price of a limit order.
	texts := []quickfix.Tag{11, 55, 54}
	report.Header.SetString(35, "8")
	for _, tag := range texts {
		text, err := order.Body.GetString(tag)
		if err != nil {
			return err
		}
		report.Body.SetString(tag, text)
	}
	var quantity, price quickfix.FIXDecimal
	if err := order.Body.GetField(38, &quantity); err != nil {
		return err
	}
	if ordType == "2" {
		if err := order.Body.GetField(44, &price); err != nil {
			return err
		}
		report.Body.SetField(44, price)
	}
	if order.Body.Has(59) {
		if _, err := order.Body.GetString(59); err != nil {
			return err
		}
	}
	number := strconv.FormatInt(v.orders.Add(1), 10)
	report.Body.SetField(38, quantity)
	report.Body.SetField(151, quantity)
	report.Body.SetField(60, quickfix.FIXUTCTimestamp{Time: time.Now().UTC()})
	report.Body.SetString(17, number)
	report.Body.SetString(37, number)
	for _, tag := range []quickfix.Tag{20, 150, 39, 14, 6} {
		report.Body.SetString(tag, "0")
	}
	return nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "go_acceptor:", err)
	os.Exit(2)
}

// freePort is a port that is free now: quickfixgo does not say which one the system has chosen.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// plainDictionary is a copy without the elements for conditions, which quickfixgo takes for fields
// without a name.
func plainDictionary() (string, error) {
	text, err := os.ReadFile(options["dictionary"])
	if err != nil {
		return "", err
	}
	var plain strings.Builder
	for _, line := range strings.SplitAfter(string(text), "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), "<condition ") {
			plain.WriteString(line)
		}
	}
	copied, err := os.CreateTemp("", "FIX42-*.xml")
	if err != nil {
		return "", err
	}
	defer copied.Close()
	_, err = copied.WriteString(plain.String())
	return copied.Name(), err
}

func settings(port int, dictionary string) (*quickfix.Settings, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "[DEFAULT]\nSocketAcceptHost=127.0.0.1\nSocketAcceptPort=%d\n", port)
	text.WriteString("BeginString=FIX.4.2\nSenderCompID=VENUE\n")
	if options["validate"] == "yes" {
		fmt.Fprintf(&text, "DataDictionary=%s\n", dictionary)
	} else {
		text.WriteString("RejectInvalidMessage=N\nCheckLatency=N\n")
	}
	if options["store"] != "memory" {
		// Its default flushes the disk for each message.
		fmt.Fprintf(&text, "FileStorePath=%s\nFileStoreSync=N\n", options["store"])
	}
	sessions, _ := strconv.Atoi(options["sessions"])
	for n := range sessions {
		fmt.Fprintf(&text, "[SESSION]\nTargetCompID=C%d\n", n)
	}
	return quickfix.ParseSettings(strings.NewReader(text.String()))
}

func start() error {
	if err := readOptions(os.Args[1:]); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	var dictionary string
	if options["validate"] == "yes" {
		if dictionary, err = plainDictionary(); err != nil {
			return err
		}
		defer os.Remove(dictionary)
	}
	all, err := settings(port, dictionary)
	if err != nil {
		return err
	}
	stores := quickfix.NewMemoryStoreFactory()
	if options["store"] != "memory" {
		stores = file.NewStoreFactory(all)
	}
	app := &venue{echo: options["answer"] == "echo"}
	acceptor, err := quickfix.NewAcceptor(app, stores, all, quickfix.NewNullLogFactory())
	if err != nil {
		return err
	}
	if err := acceptor.Start(); err != nil {
		return err
	}
	fmt.Printf("127.0.0.1:%d\n", port)
	return nil
}

func main() {
	// Pinned to one CPU, Go would run one goroutine at a time, and a message would take 15 ms.
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
	if err := start(); err != nil {
		fail(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	// Logging out all sessions takes seconds, and says nothing more.
	os.Exit(0)
}
