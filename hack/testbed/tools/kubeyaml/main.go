// Command kubeyaml reads and writes YAML as kubectl does, with the libraries that kubectl uses: one request and one answer
// per line, each a JSON object. A request has a text to read, or a value to write.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	stream "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	goyaml "go.yaml.in/yaml/v2"
)

// request is a document to read, a file of documents to read, or a value to write.
type request struct {
	Document *string
	File     *string
	Value    json.RawMessage
	Lenient  bool
}

// answer is what was read, as JSON, or written; or why it was refused.
type answer struct {
	JSON  []json.RawMessage `json:"json,omitempty"`
	YAML  string            `json:"yaml,omitempty"`
	Error string            `json:"error,omitempty"`
}

func main() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		check(err)
		asked := request{}
		check(json.Unmarshal(line, &asked))
		found, err := handle(asked)
		if err != nil {
			found = answer{Error: err.Error()}
		}
		text, err := json.Marshal(found)
		check(err)
		_, err = out.Write(append(text, '\n'))
		check(err)
		if in.Buffered() == 0 {
			check(out.Flush())
		}
	}
}

func handle(asked request) (answer, error) {
	switch {
	case asked.Document != nil && asked.Lenient:
		found, err := yaml.YAMLToJSON([]byte(*asked.Document))
		return answer{JSON: []json.RawMessage{found}}, err
	case asked.Document != nil:
		found, err := document([]byte(*asked.Document))
		return answer{JSON: []json.RawMessage{found}}, err
	case asked.File != nil:
		found, err := documents([]byte(*asked.File))
		return answer{JSON: found}, err
	default:
		var value any
		decoder := json.NewDecoder(bytes.NewReader(asked.Value))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			return answer{}, err
		}
		text, err := yaml.Marshal(value)
		return answer{YAML: string(text)}, err
	}
}

// document reads one document, and refuses a key that is given twice.
func document(text []byte) (json.RawMessage, error) {
	found, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var object, rest any
	decoder := goyaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&object); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	// What follows the document is not read by kubectl, which is no reason to accept it.
	if err := decoder.Decode(&rest); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("more than one document"), err)
	}
	return found, single(object)
}

// documents reads a file as kubectl does: as JSON if it begins with a brace and is JSON, else as documents of YAML.
func documents(text []byte) ([]json.RawMessage, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	found := []json.RawMessage{}
	decoder := stream.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		next := json.RawMessage{}
		err := decoder.Decode(&next)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		next = bytes.TrimSpace(next)
		if len(next) == 0 || bytes.Equal(next, []byte("null")) {
			continue
		}
		// What the API server refuses with strict validation: a name that is given twice in JSON.
		var object any
		strict, err := kjson.UnmarshalStrict(next, &object)
		if err != nil || len(strict) > 0 {
			return nil, errors.Join(append(strict, err)...)
		}
		found = append(found, next)
	}
	return found, strict(text)
}

// strict refuses a key that is given twice in a document of YAML: kubectl itself lets the last one win.
func strict(text []byte) error {
	if stream.IsJSONBuffer(text) {
		begin := json.NewDecoder(bytes.NewReader(text))
		value := json.RawMessage{}
		for begin.Decode(&value) == nil {
		}
		text = text[begin.InputOffset():]
		blank, rest, found := bytes.Cut(text, []byte("\n"))
		if text = bytes.TrimLeftFunc(text, unicode.IsSpace); found && len(bytes.TrimSpace(blank)) == 0 {
			text = rest
		}
	}
	reader := stream.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		chunk, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := document(chunk); err != nil {
			return err
		}
	}
}

// single refuses keys of one mapping that are different in YAML and equal in JSON, such as 1 and "1": which of them wins
// is decided by chance.
func single(object any) error {
	switch found := object.(type) {
	case map[any]any:
		seen := map[string]bool{}
		for key, value := range found {
			text := fmt.Sprint(key)
			if number, isFloat := key.(float64); isFloat {
				text = strconv.FormatFloat(number, 'g', -1, 32)
				text = strings.NewReplacer("+Inf", ".inf", "-Inf", "-.inf", "NaN", ".nan").Replace(text)
			}
			if seen[text] {
				return fmt.Errorf("key %s is given twice", text)
			}
			seen[text] = true
			if err := single(value); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range found {
			if err := single(item); err != nil {
				return err
			}
		}
	}
	return nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
